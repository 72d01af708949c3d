"""The counters that are asked of ncu, and the figures that come from them.

Names are those that ncu's sections show (SpeedOfLight, Occupancy, WarpStateStats, ComputeWorkloadAnalysis and the
roofline charts), for compute capability 8.0 to 12.0. One that a GPU does not have is left out by ncu or is `n/a`; what
needs it is then absent. `t` is the duration of a kernel, sums are over
the kernels of one forward, and a `mean` weighs each kernel by its duration.

device_time_us              sum of gpu__time_duration.sum, one kernel after another, with cold caches
kernel_launches             how many kernels ran; copies and fills by the driver are none
dram_bytes                  sum of dram__bytes_read.sum + dram__bytes_write.sum, or what a GPU has in their place
dram_gb_per_s               dram_bytes / device time
dram_percent                mean of dram__throughput.avg.pct_of_peak_sustained_elapsed
compute_percent             mean of sm__throughput.avg.pct_of_peak_sustained_elapsed: the busiest part of the SM
pipe_*_percent              mean of the pipe's use of its peak in the cycles in which an SM was busy; the largest is the
                            dominant pipe
fp32_flops (fp64_, half_)   add + mul + 2 fma, of smsp__sass_thread_inst_executed_op_[fdh]*_pred_on.sum (flop_count_* of
                            NVIDIA's transition guide from nvprof)
tensor_*_flops              sum of sm__ops_path_tensor_src_*.sum, which count operations, a fused multiply-add as two
flops                       all of these together, integers not counted
arithmetic_intensity        flops / dram_bytes
ridge_point                 dense peak of the precision with the most flops / peak bandwidth (evaluation.profile.specs)
occupancy_percent           mean of sm__warps_active.avg.pct_of_peak_sustained_active
theoretical_occupancy_percent  sm__maximum_warps_per_active_cycle_pct; its limiter is the smallest of
                            launch__occupancy_limit_*; of the longest kernel
l1_hit_percent, l2_hit_percent  mean of l1tex__t_sector_hit_rate.pct, lts__t_sector_hit_rate.pct
load_sectors_per_request    sum of sectors / sum of requests, global memory; the same for stores
registers_per_thread, shared_bytes_per_block, block_size, grid_size  of the longest kernel; shared memory is static,
                            dynamic and the driver's
stall_*_cycles              smsp__average_warps_issue_stalled_*_per_issue_active.ratio: cycles that a warp spent in this
                            state for each instruction that was issued, weighed by smsp__inst_issued.sum
stall_*_percent             its share of all states' cycles, `selected` (issuing) included; they add up to 100
"""

from __future__ import annotations

TIME = "gpu__time_duration.sum"
DRAM = ("dram__bytes_read.sum", "dram__bytes_write.sum"), ("dram__bytes_op_read.sum", "dram__bytes_op_write.sum")
"""Counters to add up, the first of these ways that a GPU has: the second is that of compute capability 12.0."""
DRAM_PERCENT = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
COMPUTE_PERCENT = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
PIPES = {
    "alu": "sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active",
    "fma": "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active",
    "fp64": "sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_active",
    "lsu": "sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active",
    "xu": "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",
    "tensor": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
}
_THREADS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
_OPERATIONS = {"add": 1, "mul": 1, "fma": 2}
SCALAR = {
    precision: {_THREADS.format(letter + operation): factor for operation, factor in _OPERATIONS.items()}
    for precision, letter in (("fp64", "d"), ("fp32", "f"), ("half", "h"))
}
"""Precision -> counter -> operations for each."""
_PATH = "sm__ops_path_tensor_src_{}.sum"
TENSOR = {
    "fp64": ((_PATH.format("fp64"),),),
    "tf32": ((_PATH.format("tf32_dst_fp32"),),),
    "bf16": ((_PATH.format("bf16_dst_fp32"),),),
    "fp16": ((_PATH.format("fp16"),), (_PATH.format("fp16_dst_fp16"), _PATH.format("fp16_dst_fp32"))),
    "fp8": ((_PATH.format("fp8"),), (_PATH.format("fp8_dst_fp16"), _PATH.format("fp8_dst_fp32"))),
}
"""Precision -> counters to add up; the first of several ways that a GPU has: on compute capability 9.0 fp16 is one."""
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
THEORETICAL_OCCUPANCY = "sm__maximum_warps_per_active_cycle_pct"
LIMITS = {
    "blocks": "launch__occupancy_limit_blocks",
    "registers": "launch__occupancy_limit_registers",
    "shared memory": "launch__occupancy_limit_shared_mem",
    "warps": "launch__occupancy_limit_warps",
}
L1_HIT, L2_HIT = "l1tex__t_sector_hit_rate.pct", "lts__t_sector_hit_rate.pct"
SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum"
REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_{}.sum"
REGISTERS, BLOCK, GRID = "launch__registers_per_thread", "launch__block_size", "launch__grid_size"
SHARED = tuple(f"launch__shared_mem_per_block_{part}" for part in ("static", "dynamic", "driver"))
ISSUED = "smsp__inst_issued.sum"
STATES = (
    "barrier", "branch_resolving", "dispatch_stall", "drain", "imc_miss", "lg_throttle", "long_scoreboard",
    "math_pipe_throttle", "membar", "mio_throttle", "misc", "no_instruction", "not_selected", "selected",
    "short_scoreboard", "sleeping", "tex_throttle", "wait",
)  # fmt: skip
STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"


def asked() -> list[str]:
    """Everything that is asked of ncu, in a fixed order."""
    return [
        TIME, *(name for way in DRAM for name in way), DRAM_PERCENT, COMPUTE_PERCENT, *PIPES.values(),
        *(name for counters in SCALAR.values() for name in counters),
        *(name for ways in TENSOR.values() for counters in ways for name in counters),
        OCCUPANCY, THEORETICAL_OCCUPANCY, *LIMITS.values(), L1_HIT, L2_HIT,
        *(form.format(operation) for form in (SECTORS, REQUESTS) for operation in ("ld", "st")),
        REGISTERS, BLOCK, GRID, *SHARED, ISSUED, *map(STALL.format, STATES),
    ]  # fmt: skip
