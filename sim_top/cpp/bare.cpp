// Repeats what Python did to a simulation shell, without Python: the yardstick of co-simulation.
//
// bare SCRIPT: one command per line, as Shell(record=...) takes them down:
//
//   write SIGNAL HEX    set a signal of the top
//   flip SIGNAL -       flip it and run until the shell has stopped its clock
//   file FROM TO        copy a file (what a memory is about to load)
//
// Writes "cycles N seconds S": the cycles run, and the processor time spent in running them.

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>

#include "Vtop.h"
#include "verilated.h"
#include "verilated_vpi.h"

static vpiHandle find(const std::string& name) {
    std::string path = "simulation." + name;
    vpiHandle handle = vpi_handle_by_name(path.data(), nullptr);
    if (!handle) {
        std::fprintf(stderr, "no public signal %s\n", path.c_str());
        std::exit(2);
    }
    return handle;
}

static void put(const std::string& name, std::string digits) {
    s_vpi_value value;
    value.format = vpiHexStrVal;
    value.value.str = digits.data();
    vpi_put_value(find(name), &value, nullptr, vpiNoDelay);
}

static unsigned long long get(const std::string& name) {
    s_vpi_value value;
    value.format = vpiHexStrVal;
    vpi_get_value(find(name), &value);
    return std::stoull(value.value.str, nullptr, 16);
}

int main(int argc, char** argv) {
    if (argc < 2) {
        std::fprintf(stderr, "usage: bare SCRIPT [+plusarg ...]\n");
        return 2;
    }
    Verilated::commandArgs(argc, argv);
    Verilated::fatalOnVpiError(true);
    VerilatedContext* context = Verilated::threadContextp();
    const auto top = std::make_unique<Vtop>("");

    const auto run = [&] {
        do {
            top->eval();
            if (!top->eventsPending()) break;
            context->time(top->nextTimeSlot());
        } while (!context->gotFinish());
    };
    run();

    std::ifstream script(argv[1]);
    std::string command, first, second;
    unsigned long long cycles = 0;
    std::clock_t spent = 0;
    while (script >> command >> first >> second) {
        if (command == "file") {
            std::filesystem::copy_file(first, second,
                                       std::filesystem::copy_options::overwrite_existing);
            continue;
        }
        if (command == "write") {
            put(first, second);
            continue;
        }
        put(first, get(first) ? "0" : "1");
        const unsigned long long before = get("cycle");
        const std::clock_t start = std::clock();
        run();
        if (first == "go") {
            spent += std::clock() - start;
            const unsigned long long after = get("cycle");
            cycles += after > before ? after - before : 0;
        }
    }
    top->final();
    std::printf("cycles %llu seconds %.9f\n", cycles,
                static_cast<double>(spent) / CLOCKS_PER_SEC);
    return 0;
}
