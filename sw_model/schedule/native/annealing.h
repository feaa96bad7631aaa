// Simulated annealing over schedules; see search.cpp.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <utility>
#include <vector>

#include "model.h"
#include "state.h"

namespace antiphon {

using namespace rules;

using Progress = void (*)(double);

constexpr int kTries = 3;        // of the best starts
constexpr int kLevelling = 8;    // ways from which the most level one is taken
constexpr double kLevel = 0.25;  // how often it is, and not any

class Search {
  public:
    Search(int chunks, int dims, const Orders& orders, uint64_t seed, double seconds,
           int64_t budget, Progress progress)
        : chunks_(chunks), orders_(orders), random_(seed), model_(chunks, orders.stride, dims),
          began_(std::clock()), seconds_(seconds), budget_(budget), progress_(progress),
          half_(chunks, orders.stride), begins_(chunks * orders.stride),
          order_loads_(orders.count * dims, 0) {
        for (int i = 0; i < orders.count; ++i) {
            for (int s = 0; s < orders.stages[i]; ++s) {
                const int op = i * orders.stride + s;
                order_loads_[i * dims + orders.dim[op]] += orders.busy[op];
            }
        }
    }

    int64_t judge(State& state, int64_t cutoff = kNever) {
        ++judged_;
        if (state.rule != kFactors) {
            if (overloaded(state, cutoff)) {
                spent_ += orders_.stride;
                return kNever;
            }
            plan(state);
        }
        const int64_t end =
            model_.run(chunks_, state.stages.data(), state.dim.data(), state.busy.data(),
                       state.latency.data(), state.key.data(), cutoff);
        // What is dropped at once is not free either: a chunk's worth of ops.
        spent_ += model_.started() + orders_.stride;
        return end;
    }

    // Improve ``state`` in place with ``budget`` ops; the best that was seen goes to ``best``.
    void anneal(State& state, int64_t value, int64_t budget, double hot, double cold, State& best,
                int64_t& best_value, int64_t target) {
        const int64_t begin = spent_;
        const double start = static_cast<double>(value);
        double temperature = hot * start;
        int count = 0;
        while (spent_ - begin < budget && best_value > target) {
            if ((++count & 63) == 0) {
                const double done = static_cast<double>(spent_ - begin) / budget;
                temperature = start * hot * std::pow(cold / hot, done);
                if ((count & 1023) == 0 && out_of_time()) return;
            }
            touched_.clear();
            if (!move(state)) continue;
            const double slack = -temperature * std::log(1.0 - random_.uniform());
            const int64_t now = judge(state, value + static_cast<int64_t>(slack));
            if (now <= value + static_cast<int64_t>(slack)) {
                value = now;
                if (value < best_value) {
                    best_value = value;
                    best = state;
                }
            } else {
                for (auto it = touched_.rbegin(); it != touched_.rend(); ++it) restore(state, *it);
            }
        }
    }

    int64_t spent() const { return spent_; }
    int64_t judged() const { return judged_; }
    bool late() const { return late_; }

    // Let earlier chunks go first, or earlier phases.
    void prefer_early(State& state, bool phases) const {
        double mean = 0;
        int count = 0;
        for (int chunk = 0; chunk < chunks_; ++chunk) {
            for (int s = 0; s < state.stages[chunk]; ++s, ++count) {
                mean += static_cast<double>(state.busy[chunk * orders_.stride + s]);
            }
        }
        mean /= std::max(1, count);
        for (int chunk = 0; chunk < chunks_; ++chunk) {
            for (int s = 0; s < state.stages[chunk]; ++s) {
                const int op = chunk * orders_.stride + s;
                const double time = static_cast<double>(std::max<int64_t>(1, state.busy[op]));
                state.factor[op] = mean * (1 + (phases ? s : chunk)) / time;
            }
            state.derive(chunk, orders_);
            for (int s = 0; s < state.stages[chunk]; ++s) {  // exact, so that ties are ties
                state.key[chunk * orders_.stride + s] = mean * (1 + (phases ? s : chunk));
            }
        }
    }

    // Keep the keys that a rule has found, as factors that can be changed one by one.
    void settle(State& state) const {
        if (state.rule == kFactors) return;
        state.rule = kFactors;
        for (int chunk = 0; chunk < chunks_; ++chunk) {
            for (int s = 0; s < state.stages[chunk]; ++s) {
                const int op = chunk * orders_.stride + s;
                const double time = static_cast<double>(std::max<int64_t>(1, state.busy[op]));
                state.factor[op] = state.key[op] / time;
            }
            state.derive(chunk, orders_);
        }
    }

  private:
    bool overloaded(const State& state, int64_t cutoff) {
        loads_.assign(orders_.dims, 0);
        for (int chunk = 0; chunk < chunks_; ++chunk) {
            for (int s = 0; s < state.stages[chunk]; ++s) {
                const int op = chunk * orders_.stride + s;
                loads_[state.dim[op]] += state.busy[op];
            }
        }
        return *std::max_element(loads_.begin(), loads_.end()) > cutoff;
    }

    // Simulate one half of every chunk by the state's rule; the times that its ops begin at go to
    // ``begins_``, where the half's op s of chunk c stands at c * stride + s.
    int64_t simulate_half(const State& state, bool gathers) {
        for (int c = 0; c < chunks_; ++c) {
            const int chunk = gathers ? chunks_ - 1 - c : c;
            const int cut = std::min(orders_.scatters[state.order[chunk]], state.stages[chunk]);
            const int first = gathers ? state.stages[chunk] - 1 : 0;
            half_.stages[c] = gathers ? state.stages[chunk] - cut : cut;
            for (int s = 0; s < half_.stages[c]; ++s) {
                const int from = chunk * orders_.stride + (gathers ? first - s : s);
                const int to = c * orders_.stride + s;
                const double time = static_cast<double>(state.busy[from]);
                half_.dim[to] = state.dim[from];
                half_.busy[to] = state.busy[from];
                half_.latency[to] = state.latency[from];
                half_.key[to] = state.rule == kFirst     ? 0.0
                                : state.rule == kLongest ? -time
                                : state.rule == kChunk   ? static_cast<double>(c)
                                                         : time;
            }
        }
        const int64_t end = model_.run(chunks_, half_.stages.data(), half_.dim.data(),
                                       half_.busy.data(), half_.latency.data(), half_.key.data(),
                                       kNever, begins_.data());
        spent_ += model_.started();
        return end;
    }

    void plan(State& state) {
        const int64_t scattered = simulate_half(state, false);
        for (int chunk = 0; chunk < chunks_; ++chunk) {
            const int cut = std::min(orders_.scatters[state.order[chunk]], state.stages[chunk]);
            for (int s = 0; s < cut; ++s) {
                const int op = chunk * orders_.stride + s;
                state.key[op] = static_cast<double>(begins_[op]);
            }
        }
        const int64_t end = scattered + simulate_half(state, true);
        for (int chunk = 0; chunk < chunks_; ++chunk) {
            const int cut = std::min(orders_.scatters[state.order[chunk]], state.stages[chunk]);
            const int mirrored = (chunks_ - 1 - chunk) * orders_.stride;
            for (int s = cut; s < state.stages[chunk]; ++s) {
                const int op = chunk * orders_.stride + s;
                const int64_t begun = begins_[mirrored + state.stages[chunk] - 1 - s];
                state.key[op] = static_cast<double>(end - begun - state.busy[op]);
            }
        }
    }

    bool out_of_time() {
        const double used = static_cast<double>(std::clock() - began_) / CLOCKS_PER_SEC;
        late_ = used > seconds_;
        if (progress_ != nullptr) {
            const double spent = static_cast<double>(spent_) / static_cast<double>(budget_);
            progress_(std::min(1.0, std::max(spent, used / seconds_)));
        }
        return late_;
    }

    struct Saved {
        int chunk, order;
        int64_t size;
        std::vector<double> factor;
    };

    void save(const State& state, int chunk) {
        const auto from = state.factor.begin() + chunk * orders_.stride;
        touched_.push_back({chunk, state.order[chunk], state.size[chunk],
                            std::vector<double>(from, from + orders_.stride)});
    }

    void restore(State& state, const Saved& saved) {
        state.order[saved.chunk] = saved.order;
        state.size[saved.chunk] = saved.size;
        std::copy(saved.factor.begin(), saved.factor.end(),
                  state.factor.begin() + saved.chunk * orders_.stride);
        state.derive(saved.chunk, orders_);
    }

    bool move(State& state) {
        const double kind = random_.uniform();
        const int a = random_.below(chunks_);
        if (kind < 0.40) return resize(state, a);
        if (kind < 0.62) {  // another order
            if (state.size[a] == 0 || orders_.count < 2) return false;
            save(state, a);
            state.order[a] = random_.below(orders_.count);
            state.derive(a, orders_);
            return true;
        }
        if (kind < 0.77) {  // another place in the sequence
            const int b = random_.below(chunks_);
            if (a == b || (state.size[a] == 0 && state.size[b] == 0)) return false;
            save(state, a);
            save(state, b);
            std::swap(state.order[a], state.order[b]);
            std::swap(state.size[a], state.size[b]);
            std::swap_ranges(state.factor.begin() + a * orders_.stride,
                             state.factor.begin() + (a + 1) * orders_.stride,
                             state.factor.begin() + b * orders_.stride);
            state.derive(a, orders_);
            state.derive(b, orders_);
            return true;
        }
        if (state.rule != kFactors) return resize(state, a);
        if (state.stages[a] == 0) return false;
        save(state, a);
        double& factor = state.factor[a * orders_.stride + random_.below(state.stages[a])];
        const double u = random_.uniform();
        factor = u < 0.1 ? 0.0 : u < 0.2 ? 1.0 : std::exp(6.0 * random_.uniform() - 3.0);
        state.derive(a, orders_);
        return true;
    }

    // Part of a chunk that another may take: from a crumb to a third of it, sometimes all.
    int64_t part(const State& state, int chunk) {
        const double u = random_.uniform();
        const double share = u < 0.03 ? 1.0 : 0.4 * std::pow(10.0, -4.0 * random_.uniform());
        const auto amount = static_cast<int64_t>(share * static_cast<double>(state.size[chunk]));
        return std::max<int64_t>(1, std::min(amount, state.size[chunk]));
    }

    // Of some ways to move a part from one chunk to another the one that levels the dims best.
    bool level(const State& state, int& from, int& to, int64_t& amount) {
        loads_.assign(orders_.dims, 0);
        for (int chunk = 0; chunk < chunks_; ++chunk) {
            const int64_t* of_order = &order_loads_[state.order[chunk] * orders_.dims];
            for (int d = 0; d < orders_.dims; ++d) loads_[d] += state.size[chunk] * of_order[d];
        }
        int64_t best = kNever;
        for (int i = 0; i < kLevelling; ++i) {
            const int a = random_.below(chunks_), b = random_.below(chunks_);
            if (a == b || state.size[a] == 0) continue;
            const int64_t moved = part(state, a);
            const int64_t* less = &order_loads_[state.order[a] * orders_.dims];
            const int64_t* more = &order_loads_[state.order[b] * orders_.dims];
            int64_t most = 0;
            for (int d = 0; d < orders_.dims; ++d) {
                most = std::max(most, loads_[d] + moved * (more[d] - less[d]));
            }
            if (most < best) {
                best = most;
                from = a;
                to = b;
                amount = moved;
            }
        }
        return best != kNever;
    }

    bool resize(State& state, int a) {
        int b = random_.below(chunks_);
        int64_t amount = 0;
        if (random_.uniform() < kLevel) {
            if (!level(state, a, b, amount)) return false;
        } else {
            if (a == b || state.size[a] == 0) return false;
            amount = part(state, a);
        }
        save(state, a);
        save(state, b);
        state.size[a] -= amount;
        state.size[b] += amount;
        state.derive(a, orders_);
        state.derive(b, orders_);
        return true;
    }

    int chunks_;
    Orders orders_;
    Random random_;
    Model model_;
    std::clock_t began_;
    double seconds_;
    int64_t budget_;
    Progress progress_;
    int64_t spent_ = 0, judged_ = 0;
    bool late_ = false;
    std::vector<Saved> touched_;
    State half_;  // only what follows from orders and sizes
    std::vector<int64_t> begins_, order_loads_, loads_;
};

}  // namespace antiphon
