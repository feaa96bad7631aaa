// Feeds pairs of flits to a verilated ReduceFlit, one per cycle, as fast as it goes.
//
// reduce_flit DATA_TYPE OPERATOR DEPTH < operands > results
//
// stdin: for each pair the bytes of a, then those of b. stdout: the bytes of each result.
// Fails unless every result comes exactly DEPTH cycles behind its operands.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "Vdut.h"
#include "verilated.h"

int main(int argc, char** argv) {
    if (argc != 4) return 2;
    VerilatedContext context;
    Vdut dut{&context};
    const int depth = std::atoi(argv[3]);
    const size_t flit = sizeof dut.a;
    dut.data_type = std::atoi(argv[1]);
    dut.__SYM__operator = std::atoi(argv[2]);
    dut.enable = 1;
    dut.rst = 0;
    dut.clk = 0;
    std::vector<char> pair(2 * flit);
    long fed = 0, taken = 0;
    for (long cycle = 0;; ++cycle) {
        const bool more = std::fread(pair.data(), 2 * flit, 1, stdin) == 1;
        if (more) {
            std::memcpy(&dut.a, pair.data(), flit);
            std::memcpy(&dut.b, pair.data() + flit, flit);
        }
        dut.valid = more;
        dut.eval();
        const bool due = cycle >= depth && cycle - depth < fed + more;
        if (bool(dut.o_valid) != due) {
            std::fprintf(stderr, "cycle %ld: o_valid is %d\n", cycle, int(dut.o_valid));
            return 1;
        }
        if (due) {
            std::fwrite(&dut.o, flit, 1, stdout);
            ++taken;
        }
        fed += more;
        if (!more && taken == fed) break;
        dut.clk = 1;
        dut.eval();
        dut.clk = 0;
        dut.eval();
    }
    dut.final();
    return 0;
}
