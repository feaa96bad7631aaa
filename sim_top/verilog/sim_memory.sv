// The memory beside one NPU, inside the simulation.
//
// One beat is FLIT_BYTES wide; addresses count beats. Reads and writes are independent, each with a
// rate of its own, gain / cost beats per cycle, exact and at most 1:
//
//   read    a request for `beats` beats accepted in cycle t gives its first beat in cycle
//           t + READ_LATENCY, or right behind the last beat of the request before it, then one per
//           cycle while `read_data_ready`. QUEUE requests may wait.
//           (A rate below 1 paces the beats as they are presented, one cycle earlier.)
//   write   a beat accepted in cycle t is in the memory from cycle t + 1 and acknowledged by one
//           pulse in cycle t + WRITE_LATENCY. Bytes whose strobe is 0 keep their value.
//
// A rate is an account that holds at most cost + gain - 1, its value after reset. A beat needs cost
// of it and takes that much; every cycle gives gain. So at most ceil(n * gain / cost) beats pass in
// any n cycles, and exactly at the rate where they wait.
//
// A beat holds what had been written when it was presented. An access past the end reads zero or
// writes nothing, and sets `fault` for good.
//
// With the plusargs +memory_stalls=<n> and +memory_seed=<s>, each of the three handshakes is refused
// in n of 256 cycles, drawn from a generator seeded with s and ID; the cycles above are then the
// earliest.
//
// When `load` flips and `chosen` is set, beats `first` to `last` are read from the file
// memory_<ID>.hex in the working directory; when `dump` flips they are written to it.
module sim_memory #(
  parameter ID = 0,
  parameter WORDS = 65536,
  parameter FLIT_BYTES = 16,
  parameter READ_LATENCY = 64,   // at least 2
  parameter WRITE_LATENCY = 32,  // at least 1
  parameter QUEUE = 64
) (
  input logic clk,
  input logic rst,

  input logic [15:0] read_gain,
  input logic [15:0] read_cost,
  input logic [15:0] write_gain,
  input logic [15:0] write_cost,

  input logic read_request_valid,
  output logic read_request_ready,
  input logic [31:0] read_request_address,
  input logic [15:0] read_request_beats,

  output logic read_data_valid,
  input logic read_data_ready,
  output logic [8*FLIT_BYTES-1:0] read_data_payload,

  input logic write_valid,
  output logic write_ready,
  input logic [31:0] write_address,
  input logic [8*FLIT_BYTES-1:0] write_data,
  input logic [FLIT_BYTES-1:0] write_strobe,
  output logic write_acknowledged,

  output logic fault,

  input logic chosen,
  input logic load,
  input logic dump,
  input logic [31:0] first,
  input logic [31:0] last
);
  logic [8*FLIT_BYTES-1:0] words[0:WORDS-1];

  // Requests that wait, and the time (a free-running count) at which each may answer.
  logic [31:0] queue_address[0:QUEUE-1];
  logic [15:0] queue_beats[0:QUEUE-1];
  logic [31:0] queue_time[0:QUEUE-1];
  logic [31:0] head, tail, now;

  logic [15:0] beat;
  logic [31:0] beat_address;
  logic [WRITE_LATENCY-1:0] acknowledges;

  logic [31:0] random, stalls, seed;
  logic stall_request, stall_response, stall_write;

  logic [17:0] read_saved, write_saved;

  logic take_request, take_write, next_beat;
  integer i;

  initial begin
    for (i = 0; i < WORDS; i = i + 1) words[i] = 0;
    stalls = 0;
    seed = 1;
    if ($value$plusargs("memory_stalls=%d", stalls)) begin end
    if ($value$plusargs("memory_seed=%d", seed)) begin end
    random = (seed * 32'd2654435761) ^ ((ID + 1) * 32'd40503) ^ 32'h9e3779b9;
    if (random == 0) random = 1;
    head = 0;
    tail = 0;
    now = 0;
    beat = 0;
    acknowledges = 0;
    read_saved = 0;
    write_saved = 0;
    fault = 0;
    read_data_valid = 0;
    read_data_payload = 0;
    stall_request = 0;
    stall_response = 0;
    stall_write = 0;
  end

  assign read_request_ready = tail - head < QUEUE && !stall_request;
  assign write_ready = write_saved >= {2'd0, write_cost} && !stall_write;
  assign write_acknowledged = acknowledges[WRITE_LATENCY-1];

  assign take_request = read_request_valid && read_request_ready;
  assign take_write = write_valid && write_ready;
  assign beat_address = queue_address[head%QUEUE] + {16'd0, beat};
  assign next_beat = head != tail && $signed(now - queue_time[head%QUEUE]) >= 0
      && read_saved >= {2'd0, read_cost} && (!read_data_valid || read_data_ready)
      && !stall_response;

  // The account of a rate in the next cycle.
  function automatic [17:0] saved_next(
    input [17:0] saved, input [15:0] gain, input [15:0] cost, input taken
  );
    logic [17:0] most;
    most = {2'd0, cost} + {2'd0, gain} - 18'd1;
    saved_next = (taken ? saved - {2'd0, cost} : saved) + {2'd0, gain};
    if (saved_next > most) saved_next = most;
  endfunction

  function automatic [31:0] xorshift(input [31:0] state);
    xorshift = state ^ (state << 13);
    xorshift = xorshift ^ (xorshift >> 17);
    xorshift = xorshift ^ (xorshift << 5);
  endfunction

  always_ff @(posedge clk) begin
    now <= now + 1;
    read_saved <= saved_next(read_saved, read_gain, read_cost, next_beat);
    write_saved <= saved_next(write_saved, write_gain, write_cost, take_write);

    if (take_request) begin
      queue_address[tail%QUEUE] <= read_request_address;
      queue_beats[tail%QUEUE] <= read_request_beats;
      queue_time[tail%QUEUE] <= now + READ_LATENCY - 1;
      tail <= tail + 1;
      if (read_request_beats == 0) fault <= 1;
    end

    if (next_beat) begin
      read_data_valid <= 1;
      if (beat_address < WORDS) begin
        read_data_payload <= words[beat_address];
      end else begin
        read_data_payload <= 0;
        fault <= 1;
      end
      if (beat + 16'd1 >= queue_beats[head%QUEUE]) begin
        beat <= 0;
        head <= head + 1;
      end else begin
        beat <= beat + 1;
      end
    end else if (read_data_ready) begin
      read_data_valid <= 0;
    end

    acknowledges <= {acknowledges, take_write};
    if (take_write) begin
      if (write_address < WORDS) begin
        if (&write_strobe) words[write_address] <= write_data;
        else
          for (i = 0; i < FLIT_BYTES; i = i + 1)
            if (write_strobe[i]) words[write_address][8*i+:8] <= write_data[8*i+:8];
      end else begin
        fault <= 1;
      end
    end

    if (stalls != 0) begin
      random <= xorshift(random);
      stall_request <= {24'd0, random[7:0]} < stalls;
      stall_response <= {24'd0, random[15:8]} < stalls;
      stall_write <= {24'd0, random[23:16]} < stalls;
    end

    if (rst) begin
      read_saved <= {2'd0, read_cost} + {2'd0, read_gain} - 18'd1;
      write_saved <= {2'd0, write_cost} + {2'd0, write_gain} - 18'd1;
      head <= 0;
      tail <= 0;
      beat <= 0;
      acknowledges <= 0;
      fault <= 0;
      read_data_valid <= 0;
    end
  end

  always @(load) if (chosen) $readmemh($sformatf("memory_%0d.hex", ID), words, first, last);
  always @(dump) if (chosen) $writememh($sformatf("memory_%0d.hex", ID), words, first, last);
endmodule
