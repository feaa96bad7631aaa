// A search for schedules with the minimal model as judge. Compiled by
// sw_model/schedule/native/library.py; plain C interface, no state.
//
// Simulated annealing over: the order of dims of each chunk, the size of each chunk, the sequence
// of chunks, and the key of each op (smaller starts first). All random numbers come from one seed,
// and the budget is counted in simulated ops, so the result does not depend on the machine.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "annealing.h"

using std::int64_t;
using std::uint64_t;

using antiphon::kTries;
using antiphon::Model;
using antiphon::Orders;
using antiphon::Progress;
using antiphon::Search;
using antiphon::State;
using namespace antiphon::rules;

extern "C" {

int64_t antiphon_run(int chunks, int stride, int dims, const int* stages, const int* dim,
                     const int64_t* busy, const int64_t* latency, const double* key) {
    Model model(chunks, stride, dims);
    return model.run(chunks, stages, dim, busy, latency, key);
}

// starts: ``starts`` states one after another; the result replaces the first of them, with keys in
// place of factors. progress: gets the share that is done now and then, or is null. figures: judged
// states, spent ops, 1 where the time was up.
int64_t antiphon_search(int chunks, int dims, int order_count, int stride, const int* stages,
                        const int* scatters, const int* dim, const int64_t* busy,
                        const int64_t* latency, int serial, int starts, int* start_order,
                        int64_t* start_size, double* start_factor, int64_t budget,
                        double seconds, uint64_t seed, int64_t target, Progress progress,
                        int64_t* figures) {
    const Orders orders{order_count, stride, dims,    stages,     scatters,
                        dim,         busy,   latency, serial != 0};
    Search search(chunks, dims, orders, seed, seconds, budget, progress);
    std::vector<std::pair<int64_t, State>> states;
    for (int i = 0; i < starts; ++i) {
        State state(chunks, stride);
        std::copy_n(start_order + i * chunks, chunks, state.order.begin());
        std::copy_n(start_size + i * chunks, chunks, state.size.begin());
        std::copy_n(start_factor + i * chunks * stride, chunks * stride, state.factor.begin());
        for (int chunk = 0; chunk < chunks; ++chunk) state.derive(chunk, orders);
        for (int rule = -2; rule < kRules; ++rule) {
            if (rule > kFactors) {
                state.rule = rule;
            } else if (rule < kFactors) {
                search.prefer_early(state, rule == -1);
            } else {
                const double* given = start_factor + i * chunks * stride;
                std::copy_n(given, chunks * stride, state.factor.begin());
                for (int chunk = 0; chunk < chunks; ++chunk) state.derive(chunk, orders);
            }
            const int64_t value = search.judge(state);
            const auto place =
                std::upper_bound(states.begin(), states.end(), value,
                                 [](int64_t v, const auto& kept) { return v < kept.first; });
            if (place - states.begin() >= kTries) continue;
            states.insert(place, {value, state});
            if (states.size() > kTries) states.pop_back();
        }
    }
    State best = states.front().second;
    int64_t best_value = states.front().first;
    // A first try from each of the best starts, then all the rest from the best that they found.
    for (size_t i = 0; i < states.size() && best_value > target && !search.late(); ++i) {
        State state = states[i].second, found = state;
        int64_t found_value = states[i].first;
        search.anneal(state, found_value, budget / 10, 3e-3, 1e-4, found, found_value, target);
        if (found_value < best_value) {
            best_value = found_value;
            best = found;
        }
    }
    double hot = 2e-3;
    int64_t left = budget - search.spent();
    for (int rounds = 3; rounds > 0 && left > 0 && best_value > target && !search.late();
         --rounds) {
        if (rounds < 3) search.settle(best);
        State state = best;
        search.anneal(state, best_value, left / rounds, hot, 1e-5, best, best_value, target);
        hot *= 0.6;
        left = budget - search.spent();
    }
    std::copy(best.order.begin(), best.order.end(), start_order);
    std::copy(best.size.begin(), best.size.end(), start_size);
    std::copy(best.key.begin(), best.key.end(), start_factor);
    figures[0] = search.judged();
    figures[1] = search.spent();
    figures[2] = search.late();
    return best_value;
}

}  // extern "C"
