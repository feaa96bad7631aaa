// The clock, the reset and the alarm of a simulation.
//
// The clock is made here, so that a run of a million cycles wakes nobody outside. It runs from one
// flip of `go` to the next reason to stop, and stands still in between: time that only passes
// outside costs nothing, and whoever wakes up finds exactly the cycle that woke it.
//
// Cycle n is the time from rising edge n to rising edge n + 1; the first edge after reset begins
// cycle 1. Stop conditions are sampled at the falling edge, when everything has settled:
//
//   reason[0]      cycle >= wake_at
//   reason[1]      `outstanding` without `activity` for `watchdog_limit` cycles (0: never)
//   reason[2]      the end of a reset
//   reason[3 + i]  events[i] while event_enable[i]
//
// `stopped` flips when the clock has stopped and `reason` is valid.
module sim_shell #(
  parameter EVENTS = 1,
  parameter RESET_CYCLES = 4
) (
  output logic clk,
  output logic rst,
  output logic [63:0] cycle,

  // From outside, changed only while the clock stands still.
  input logic go,
  input logic reset_request,
  input logic [63:0] wake_at,
  input logic [31:0] watchdog_limit,
  input logic [EVENTS-1:0] event_enable,

  // From the design.
  input logic [EVENTS-1:0] events,
  input logic activity,
  input logic outstanding,

  // To the outside.
  output logic stopped,
  output logic [EVENTS+2:0] reason,
  output logic [31:0] quiet_cycles
);
  logic seen;
  logic running;

  task automatic one_cycle();
    #1 clk = 1;
    #1 clk = 0;
  endtask

  initial begin
    clk = 0;
    rst = 1;
    cycle = 0;
    seen = 0;
    running = 0;
    stopped = 0;
    reason = 0;
    quiet_cycles = 0;
    forever begin
      wait (go != seen);
      seen = go;
      if (reset_request) begin
        rst = 1;
        repeat (RESET_CYCLES) one_cycle();
        rst = 0;
        cycle = 0;
        quiet_cycles = 0;
        reason = 4;
      end else begin
        running = 1;
        while (running) begin
          cycle = cycle + 1;
          one_cycle();
          quiet_cycles = activity || !outstanding ? 0 : quiet_cycles + 1;
          reason[0] = cycle >= wake_at;
          reason[1] = watchdog_limit != 0 && quiet_cycles >= watchdog_limit;
          reason[2] = 0;
          reason[EVENTS+2:3] = events & event_enable;
          running = reason == 0;
        end
        if (reason[1]) quiet_cycles = 0;
      end
      stopped = !stopped;
    end
  end
endmodule
