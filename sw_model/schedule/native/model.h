// The minimal model (sw_model/schedule/minimal.py, which this repeats rule by rule).

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace antiphon {

using std::int64_t;

struct Ready {
    double key;
    int arrival;
    int chunk;
    // For std::*_heap, which keeps the largest on top.
    bool operator<(const Ready& other) const {
        return key != other.key ? key > other.key : arrival > other.arrival;
    }
};

struct Event {
    int64_t time;
    int serial;
    int chunk;
    bool operator<(const Event& other) const {
        return time != other.time ? time > other.time : serial > other.serial;
    }
};

constexpr int64_t kNever = INT64_MAX;

class Model {
  public:
    Model(int chunks, int stride, int dims) : stride_(stride), dims_(dims), at_(chunks) {
        waiting_.resize(dims);
        free_at_.resize(dims);
        serial_.resize(dims);
        holder_.resize(dims);
        left_.resize(dims);
    }

    // Ops that the last run started.
    int64_t started() const { return started_; }

    // Time of the last chunk's end. Ops of chunk i stand at i * stride. Where that is certain to
    // come after ``cutoff`` the run ends early, with kNever: when a dim starts an op, all that is
    // left to it takes at least its busy times.
    int64_t run(int chunks, const int* stages, const int* dim, const int64_t* busy,
                const int64_t* latency, const double* key, int64_t cutoff = kNever,
                int64_t* begins = nullptr) {
        for (int d = 0; d < dims_; ++d) {
            waiting_[d].clear();
            free_at_[d] = kNever;
            left_[d] = 0;
        }
        events_.clear();
        started_ = 0;
        for (int chunk = 0; chunk < chunks; ++chunk) {
            for (int op = chunk * stride_; op < chunk * stride_ + stages[chunk]; ++op) {
                left_[dim[op]] += busy[op];
            }
        }
        for (int d = 0; d < dims_; ++d) {
            if (left_[d] > cutoff) return kNever;
        }
        int arrivals = 0, serial = 0;
        int64_t now = 0;
        auto enqueue = [&](int chunk) {
            const int op = chunk * stride_ + at_[chunk];
            auto& queue = waiting_[dim[op]];
            queue.push_back({key[op], arrivals++, chunk});
            std::push_heap(queue.begin(), queue.end());
        };
        for (int chunk = 0; chunk < chunks; ++chunk) {
            at_[chunk] = 0;
            if (stages[chunk] > 0) enqueue(chunk);
        }
        for (;;) {
            for (int d = 0; d < dims_; ++d) {
                auto& queue = waiting_[d];
                if (free_at_[d] != kNever || queue.empty()) continue;
                std::pop_heap(queue.begin(), queue.end());
                const int chunk = queue.back().chunk;
                queue.pop_back();
                const int op = chunk * stride_ + at_[chunk];
                if (left_[d] > cutoff - now) return kNever;
                left_[d] -= busy[op];
                ++started_;
                if (begins != nullptr) begins[op] = now;
                free_at_[d] = now + busy[op];
                serial_[d] = ++serial;
                holder_[d] = chunk;
                if (latency[op] != 0) {
                    holder_[d] = -1;
                    events_.push_back({now + busy[op] + latency[op], serial, chunk});
                    std::push_heap(events_.begin(), events_.end());
                }
            }
            // What comes next, by time and then by start; all of one time before anything starts.
            int64_t next = kNever;
            for (;;) {
                int which = -1;
                int64_t time = kNever;
                int first = 0;
                for (int d = 0; d < dims_; ++d) {
                    if (free_at_[d] < time || (free_at_[d] == time && time != kNever &&
                                               serial_[d] < first)) {
                        time = free_at_[d];
                        first = serial_[d];
                        which = d;
                    }
                }
                bool from_event = false;
                if (!events_.empty()) {
                    const Event& event = events_.front();
                    if (event.time < time || (event.time == time && event.serial < first)) {
                        time = event.time;
                        from_event = true;
                    }
                }
                if (time == kNever) {
                    if (next == kNever) return now;
                    break;
                }
                if (next != kNever && time != next) break;
                next = now = time;
                int chunk;
                if (from_event) {
                    chunk = events_.front().chunk;
                    std::pop_heap(events_.begin(), events_.end());
                    events_.pop_back();
                } else {
                    chunk = holder_[which];
                    free_at_[which] = kNever;
                }
                if (chunk >= 0 && ++at_[chunk] < stages[chunk]) enqueue(chunk);
            }
        }
    }

  private:
    int stride_, dims_;
    std::vector<int> at_;
    std::vector<std::vector<Ready>> waiting_;
    std::vector<int64_t> free_at_, left_;
    int64_t started_ = 0;
    std::vector<int> serial_, holder_;
    std::vector<Event> events_;
};

}  // namespace antiphon
