//! hiprt/hiprt.h in Rust: what each function does stands there. A test compares both.
#![allow(non_camel_case_types, dead_code)]
use std::ffi::{c_char, c_int, c_void};

pub const HIPRT_ABI: u32 = 1;
pub const HIPRT_RUNGS: u32 = 31;
pub const HIPRT_READ: u32 = 1;
pub const HIPRT_WRITE: u32 = 2;
pub const HIPRT_READ_WRITE: u32 = 3;
pub const HIPRT_UPDATE: u32 = 2;
pub const HIPRT_EAGER: u32 = 4;

#[repr(C)]
pub struct hiprt_stream([u8; 0]);
#[repr(C)]
pub struct hiprt_kernel([u8; 0]);
#[repr(C)]
pub struct hiprt_step([u8; 0]);
#[repr(C)]
pub struct hiprt_pool([u8; 0]);
#[repr(C)]
pub struct hiprt_arena([u8; 0]);

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct hiprt_argument {
    pub size: u32,
    pub alignment: u32,
    pub access: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct hiprt_dims {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
    pub zero: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hiprt_rules {
    pub rungs: u32,
    pub slots: u32,
    pub keys: u32,
    pub fanout: u32,
    pub overlap: u32,
    pub zero: u32,
    pub budget_nodes: u64,
    pub budget_bytes: u64,
    pub canary: *mut hiprt_kernel,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hiprt_outcome {
    pub rung: u32,
    pub nodes: u32,
    pub changed: u32,
    pub first: u32,
    pub seconds: f64,
    pub reason: [c_char; 160],
    pub node: [c_char; 128],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct hiprt_step_stats {
    pub rungs: [u64; 5],
    pub patched: u64,
    pub waited: u64,
    pub replaced: u64,
    pub topologies: u64,
    pub execs: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct hiprt_move {
    pub start: u64,
    pub end: u64,
    pub to: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hiprt_mismatch {
    pub differs: u32,
    pub node: u32,
    pub address: u64,
    pub name: [c_char; 128],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct hiprt_block {
    pub address: u64,
    pub nbytes: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct hiprt_pool_stats {
    pub allocated: u64,
    pub reserved: u64,
    pub peak: u64,
    pub largest_free: u64,
    pub retiring: u64,
    pub blocks: u32,
    pub chunks: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct hiprt_intermediate {
    pub start: u64,
    pub end: u64,
    pub is_kept: u32,
    pub zero: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct hiprt_plan {
    pub nbytes: u64,
    pub lower_bound: u64,
    pub requested: u64,
    pub intermediates: u64,
}

extern "C" {
    pub fn hiprt_version() -> c_int;
    pub fn hiprt_failure_status() -> c_int;
    pub fn hiprt_failure_call() -> *const c_char;
    pub fn hiprt_failure_detail() -> *const c_char;
    pub fn hiprt_status_name(status: c_int) -> *const c_char;
    pub fn hiprt_open(provider: *const c_char, abi: u32) -> c_int;
    pub fn hiprt_stream_create(handle: u64, device: c_int, out_stream: *mut *mut hiprt_stream) -> c_int;
    pub fn hiprt_stream_release(stream: *mut hiprt_stream);
    pub fn hiprt_stream_own(stream: *mut hiprt_stream);
    pub fn hiprt_stream_close(stream: *mut hiprt_stream, is_valid: c_int);
    pub fn hiprt_stream_synchronize(stream: *mut hiprt_stream) -> c_int;
    pub fn hiprt_kernel_create(
        function: u64,
        name: *const c_char,
        n_args: u32,
        args: *const hiprt_argument,
        out_kernel: *mut *mut hiprt_kernel,
    ) -> c_int;
    pub fn hiprt_kernel_hold_address(kernel: *mut hiprt_kernel, argument: u32, offset: u32) -> c_int;
    pub fn hiprt_kernel_retain(kernel: *mut hiprt_kernel);
    pub fn hiprt_kernel_release(kernel: *mut hiprt_kernel);
    pub fn hiprt_launch_kernel(
        stream: *mut hiprt_stream,
        kernel: *mut hiprt_kernel,
        dims: *const hiprt_dims,
        args: *const *mut c_void,
        nbytes: *const u64,
    ) -> c_int;
    pub fn hiprt_copy(stream: *mut hiprt_stream, dst: u64, src: u64, nbytes: u64, kind: c_int) -> c_int;
    pub fn hiprt_fill(stream: *mut hiprt_stream, dst: u64, value: u32, width: u32, count: u64) -> c_int;
    pub fn hiprt_barrier(stream: *mut hiprt_stream) -> c_int;
    pub fn hiprt_pool_create(device: c_int, limit: u64, out_pool: *mut *mut hiprt_pool) -> c_int;
    pub fn hiprt_pool_release(pool: *mut hiprt_pool);
    pub fn hiprt_pool_allocate(
        pool: *mut hiprt_pool,
        stream: *mut hiprt_stream,
        nbytes: u64,
        out_block: *mut *mut hiprt_block,
    ) -> c_int;
    pub fn hiprt_pool_free(pool: *mut hiprt_pool, block: *mut hiprt_block);
    pub fn hiprt_pool_leave(pool: *mut hiprt_pool, stream: *mut hiprt_stream);
    pub fn hiprt_pool_trim(pool: *mut hiprt_pool, out_nbytes: *mut u64) -> c_int;
    pub fn hiprt_pool_count(pool: *mut hiprt_pool, out_stats: *mut hiprt_pool_stats);
    pub fn hiprt_rules_default(out_rules: *mut hiprt_rules);
    pub fn hiprt_rules_probe(
        stream: *mut hiprt_stream,
        store: *mut hiprt_kernel,
        words: u64,
        out_rungs: *mut u32,
    ) -> c_int;
    pub fn hiprt_step_create(name: *const c_char, rules: *const hiprt_rules) -> *mut hiprt_step;
    pub fn hiprt_step_release(step: *mut hiprt_step);
    pub fn hiprt_step_begin(step: *mut hiprt_step, stream: *mut hiprt_stream) -> c_int;
    pub fn hiprt_step_capture(step: *mut hiprt_step) -> c_int;
    pub fn hiprt_step_captured(step: *mut hiprt_step, n_ranges: u32, ranges: *const u64, access: *const u8) -> c_int;
    pub fn hiprt_step_end(step: *mut hiprt_step, out_outcome: *mut hiprt_outcome, out_ran: *mut c_int) -> c_int;
    pub fn hiprt_step_cancel(step: *mut hiprt_step);
    pub fn hiprt_step_adopt(
        step: *mut hiprt_step,
        stream: *mut hiprt_stream,
        graph: u64,
        is_given: c_int,
        out_outcome: *mut hiprt_outcome,
        out_ran: *mut c_int,
    ) -> c_int;
    pub fn hiprt_step_again(
        step: *mut hiprt_step,
        stream: *mut hiprt_stream,
        out_outcome: *mut hiprt_outcome,
        out_ran: *mut c_int,
    ) -> c_int;
    pub fn hiprt_step_move(
        step: *mut hiprt_step,
        stream: *mut hiprt_stream,
        n_moves: u32,
        moves: *const hiprt_move,
        out_outcome: *mut hiprt_outcome,
        out_ran: *mut c_int,
    ) -> c_int;
    pub fn hiprt_step_verify(
        step: *mut hiprt_step,
        stream: *mut hiprt_stream,
        out_mismatch: *mut hiprt_mismatch,
        out_ran: *mut c_int,
    ) -> c_int;
    pub fn hiprt_step_explain(step: *mut hiprt_step, out_text: *mut c_char, room: u64, out_size: *mut u64) -> c_int;
    pub fn hiprt_step_dump(step: *mut hiprt_step, out_text: *mut c_char, room: u64, out_size: *mut u64) -> c_int;
    pub fn hiprt_step_count(step: *mut hiprt_step, out_stats: *mut hiprt_step_stats);
    pub fn hiprt_step_plan(
        step: *mut hiprt_step,
        count: u32,
        intermediates: *const hiprt_intermediate,
        out_offsets: *mut u64,
        out_plan: *mut hiprt_plan,
    ) -> c_int;
    pub fn hiprt_arena_create(pool: *mut hiprt_pool, out_arena: *mut *mut hiprt_arena) -> c_int;
    pub fn hiprt_arena_release(arena: *mut hiprt_arena);
    pub fn hiprt_arena_request(arena: *mut hiprt_arena, nbytes: u64, is_kept: c_int, out_address: *mut u64) -> c_int;
    pub fn hiprt_step_settle(step: *mut hiprt_step, arena: *mut hiprt_arena) -> c_int;
    pub fn hiprt_arena_find(arena: *const hiprt_arena, address: u64, out_address: *mut u64) -> c_int;
    pub fn hiprt_arena_count(arena: *const hiprt_arena, out_plan: *mut hiprt_plan);
}
