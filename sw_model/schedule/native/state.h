// What the search changes: a schedule, the orders it may take, and random numbers.

#pragma once

#include <cstdint>
#include <vector>

namespace antiphon {

using std::int64_t;
using std::uint64_t;

class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ull + 0x1234567ull) {}
    uint64_t next() {
        state_ ^= state_ >> 12;
        state_ ^= state_ << 25;
        state_ ^= state_ >> 27;
        return state_ * 0x2545F4914F6CDD1Dull;
    }
    int below(int n) { return static_cast<int>((next() >> 33) % static_cast<uint64_t>(n)); }
    double uniform() { return static_cast<double>(next() >> 11) * (1.0 / 9007199254740992.0); }

  private:
    uint64_t state_;
};

struct Orders {
    int count, stride, dims;
    const int* stages;
    const int* scatters;  // stages before the all-gather
    const int* dim;
    const int64_t* busy;  // of one grain
    const int64_t* latency;
    bool serial;  // latency holds the dim
};

namespace rules {

// Where keys come from. With the last four both halves of the chunks are planned by a simple rule,
// the all-gathers backwards in time from the end, so that the end is as full as the beginning; an
// op's key is its planned beginning.
enum Rule { kFactors, kFirst, kLongest, kShortest, kChunk, kRules };

}  // namespace rules

struct State {
    std::vector<int> order;
    std::vector<int64_t> size;
    std::vector<double> factor;  // of the op's time, which gives its key
    int rule = rules::kFactors;  // or the rule by which `Search::plan` finds the keys
    // What follows from them.
    std::vector<int> stages, dim;
    std::vector<int64_t> busy, latency;
    std::vector<double> key;

    State(int chunks, int stride)
        : order(chunks), size(chunks), factor(chunks * stride, 1.0), stages(chunks),
          dim(chunks * stride), busy(chunks * stride), latency(chunks * stride),
          key(chunks * stride) {}

    void derive(int chunk, const Orders& orders) {
        const int from = order[chunk] * orders.stride, to = chunk * orders.stride;
        stages[chunk] = size[chunk] > 0 ? orders.stages[order[chunk]] : 0;
        for (int s = 0; s < stages[chunk]; ++s) {
            dim[to + s] = orders.dim[from + s];
            busy[to + s] = orders.busy[from + s] * size[chunk];
            latency[to + s] = orders.latency[from + s];
            if (orders.serial) {
                busy[to + s] += latency[to + s];
                latency[to + s] = 0;
            }
            key[to + s] = factor[to + s] * static_cast<double>(busy[to + s]);
        }
    }
};

}  // namespace antiphon
