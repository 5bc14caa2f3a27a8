//! A decode loop in Rust: each token is one graph launch. It is the program of examples/c/decode.c in memory of its own: the
//! same model, the same four ways, the same tokens. `hiprt.rs` declares libhiprt, `hip.rs` the functions of HIP that an
//! engine calls itself.
//!
//! PYTHON=python cargo run --release
mod hip;
mod hiprt;

use hiprt::*;
use std::ffi::{c_int, c_void, CStr, CString};
use std::mem::size_of_val;
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

const WIDTH: usize = 64;
const LAYERS: usize = 4;
const WORDS: usize = 97;
const TOKENS: usize = 200;
const RUNGS: [&str; 5] = ["replay", "patch", "update", "instantiate", "eager"];

const SOURCE: &str = r#"
#define WIDTH 64
#define WORDS 97
extern "C" __global__ void embed(const float* table, const int* token, float* x) {
  x[threadIdx.x] = table[*token * WIDTH + threadIdx.x];
}
extern "C" __global__ void keep(const float* x, const int* at, float* cache) {
  cache[*at * WIDTH + threadIdx.x] = x[threadIdx.x];
}
extern "C" __global__ void attend(const float* x, const float* cache, const int* at, float* y) {
  float sum = 0, weights = 0;
  for (int t = 0; t <= *at; t++) {
    float score = 0;
    for (int j = 0; j < WIDTH; j++) score += x[j] * cache[t * WIDTH + j];
    const float weight = expf(score / WIDTH);
    weights += weight;
    sum += weight * cache[t * WIDTH + threadIdx.x];
  }
  y[threadIdx.x] = sum / weights;
}
extern "C" __global__ void project(const float* y, const float* w, float* x) {
  float sum = 0;
  for (int j = 0; j < WIDTH; j++) sum += w[threadIdx.x * WIDTH + j] * y[j];
  x[threadIdx.x] = tanhf(x[threadIdx.x] + sum);
}
extern "C" __global__ void choose(const float* x, const float* table, int* token, int* at, int* said) {
  if (threadIdx.x) return;
  int best = 0;
  float most = -1e30f;
  for (int word = 0; word < WORDS; word++) {
    float score = 0;
    for (int j = 0; j < WIDTH; j++) score += x[j] * table[word * WIDTH + j];
    for (int k = 1; k <= 16 && k <= *at; k++)
      if (said[*at - k] == word) score = -1e30f;
    if (score > most) { most = score; best = word; }
  }
  said[*at] = *token = best;
  *at += 1;
}
"#;

/// End the program where a call of HIP or libhiprt failed.
fn check(status: c_int, what: &str) {
    if status != 0 {
        let text = |text| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        let (name, call, detail) =
            unsafe { (text(hiprt_status_name(status)), text(hiprt_failure_call()), text(hiprt_failure_detail())) };
        panic!("{what}: {name} {status}; {call}: {detail}");
    }
}

/// Device memory for `count` numbers of 4 bytes.
struct Memory {
    start: *mut c_void,
    count: usize,
}

impl Memory {
    fn new(count: usize) -> Self {
        let mut start = null_mut();
        check(unsafe { hip::hipMalloc(&mut start, 4 * count) }, "hipMalloc");
        Self { start, count }
    }

    fn of<T: Copy>(values: &[T]) -> Self {
        let memory = Self::new(values.len());
        memory.set(values);
        memory
    }

    fn set<T: Copy>(&self, values: &[T]) {
        assert_eq!(size_of_val(values), 4 * self.count);
        let from = values.as_ptr().cast();
        check(unsafe { hip::hipMemcpy(self.start, from, 4 * self.count, hip::TO_DEVICE) }, "hipMemcpy");
    }

    fn get(&self) -> Vec<i32> {
        let mut values = vec![0; self.count];
        let to = values.as_mut_ptr().cast();
        check(unsafe { hip::hipMemcpy(to, self.start, 4 * self.count, hip::TO_HOST) }, "hipMemcpy");
        values
    }

    /// Numbers [first, first + count), as a kernel's buffer.
    fn part(&self, first: usize, count: usize) -> Buffer {
        assert!(first + count <= self.count);
        Buffer { address: self.start as u64 + 4 * first as u64, nbytes: 4 * count as u64 }
    }

    fn all(&self) -> Buffer {
        self.part(0, self.count)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        unsafe { hip::hipFree(self.start) };
    }
}

/// Memory that a launch may touch.
#[derive(Clone, Copy)]
struct Buffer {
    address: u64,
    nbytes: u64,
}

/// A module of compiled kernels.
struct Module(*mut c_void);

impl Module {
    fn compile(source: &str) -> Self {
        let text = CString::new(source).expect("no zero byte");
        let (mut program, mut module, mut size) = (null_mut(), null_mut(), 0);
        unsafe {
            let made = hip::hiprtcCreateProgram(&mut program, text.as_ptr(), c"decode.hip".as_ptr(), 0, null(), null());
            check(made, "hiprtcCreateProgram");
            check(hip::hiprtcCompileProgram(program, 0, null()), "hiprtcCompileProgram");
            check(hip::hiprtcGetCodeSize(program, &mut size), "hiprtcGetCodeSize");
            let mut code = vec![0u8; size];
            check(hip::hiprtcGetCode(program, code.as_mut_ptr().cast()), "hiprtcGetCode");
            check(hip::hipModuleLoadData(&mut module, code.as_ptr().cast()), "hipModuleLoadData");
            hip::hiprtcDestroyProgram(&mut program);
        }
        Self(module)
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        unsafe { hip::hipModuleUnload(self.0) };
    }
}

/// A kernel whose arguments are all buffers.
struct Kernel(*mut hiprt_kernel);

impl Kernel {
    /// accesses: a letter for each argument, r for one that is read, w written, b both.
    fn new(module: &Module, name: &CStr, accesses: &str) -> Self {
        let argument = |letter| {
            let access = match letter {
                'r' => HIPRT_READ,
                'w' => HIPRT_WRITE,
                _ => HIPRT_READ_WRITE,
            };
            hiprt_argument { size: 8, alignment: 8, access }
        };
        let arguments: Vec<_> = accesses.chars().map(argument).collect();
        let (mut function, mut kernel) = (null_mut(), null_mut());
        let count = arguments.len() as u32;
        unsafe {
            check(hip::hipModuleGetFunction(&mut function, module.0, name.as_ptr()), "hipModuleGetFunction");
            let made = hiprt_kernel_create(function as u64, name.as_ptr(), count, arguments.as_ptr(), &mut kernel);
            check(made, "hiprt_kernel_create");
        }
        Self(kernel)
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        unsafe { hiprt_kernel_release(self.0) };
    }
}

/// A stream of HIP, and its wrapper.
struct Stream {
    hip: *mut c_void,
    own: *mut hiprt_stream,
}

impl Stream {
    fn new() -> Self {
        let (mut hip, mut own) = (null_mut(), null_mut());
        unsafe {
            check(hip::hipStreamCreateWithFlags(&mut hip, hip::NON_BLOCKING), "hipStreamCreateWithFlags");
            check(hiprt_stream_create(hip as u64, 0, &mut own), "hiprt_stream_create");
            hiprt_stream_own(own); // it is destroyed only behind hiprt_stream_close
        }
        Self { hip, own }
    }

    fn launch(&self, kernel: &Kernel, buffers: &[Buffer]) {
        let dims = hiprt_dims { grid: [1; 3], block: [WIDTH as u32, 1, 1], ..Default::default() };
        let args: Vec<_> = buffers.iter().map(|buffer| (&buffer.address as *const u64).cast_mut().cast()).collect();
        let nbytes: Vec<_> = buffers.iter().map(|buffer| buffer.nbytes).collect();
        let status = unsafe { hiprt_launch_kernel(self.own, kernel.0, &dims, args.as_ptr(), nbytes.as_ptr()) };
        check(status, "hiprt_launch_kernel");
    }

    fn wait(&self) {
        check(unsafe { hiprt_stream_synchronize(self.own) }, "hiprt_stream_synchronize");
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        unsafe {
            hiprt_stream_close(self.own, 1);
            hiprt_stream_release(self.own);
            hip::hipStreamDestroy(self.hip);
        }
    }
}

/// A step on a stream, which it must not outlive.
struct Step<'a> {
    own: *mut hiprt_step,
    stream: &'a Stream,
}

impl<'a> Step<'a> {
    fn new(name: &str, rungs: u32, stream: &'a Stream) -> Self {
        let name = CString::new(name).expect("no zero byte");
        let mut rules: hiprt_rules = unsafe { std::mem::zeroed() };
        let own = unsafe {
            hiprt_rules_default(&mut rules);
            rules.rungs = rungs;
            hiprt_step_create(name.as_ptr(), &rules)
        };
        assert!(!own.is_null(), "hiprt_step_create");
        Self { own, stream }
    }

    /// Record what `issue` launches, and launch it.
    fn run(&self, issue: impl FnOnce()) -> hiprt_outcome {
        check(unsafe { hiprt_step_begin(self.own, self.stream.own) }, "hiprt_step_begin");
        issue();
        self.launched(|outcome| unsafe { hiprt_step_end(self.own, outcome, null_mut()) })
    }

    fn again(&self) -> hiprt_outcome {
        self.launched(|outcome| unsafe { hiprt_step_again(self.own, self.stream.own, outcome, null_mut()) })
    }

    fn moved(&self, moves: &[hiprt_move]) -> hiprt_outcome {
        let (count, moves) = (moves.len() as u32, moves.as_ptr());
        self.launched(|out| unsafe { hiprt_step_move(self.own, self.stream.own, count, moves, out, null_mut()) })
    }

    fn launched(&self, call: impl FnOnce(*mut hiprt_outcome) -> c_int) -> hiprt_outcome {
        let mut outcome: hiprt_outcome = unsafe { std::mem::zeroed() };
        check(call(&mut outcome), "a launch of the step");
        outcome
    }

    fn stats(&self) -> hiprt_step_stats {
        let mut stats = hiprt_step_stats::default();
        unsafe { hiprt_step_count(self.own, &mut stats) };
        stats
    }
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        unsafe { hiprt_step_release(self.own) };
    }
}

/// The engine: its kernels, its memory, its stream. Fields are dropped in this order.
struct Engine {
    stream: Stream,
    embed: Kernel,
    keep: Kernel,
    attend: Kernel,
    project: Kernel,
    choose: Kernel,
    _module: Module,
    table: Memory,
    weights: Memory,
    caches: Memory,
    x: Memory,
    y: Memory,
    token: Memory,
    at: Memory,
    said: Memory,
    places: Memory, // the numbers from 0 to TOKENS
}

/// Made-up weights.
fn made_up(count: usize, scale: f32, mut seed: u32) -> Memory {
    let mut next = || {
        seed = seed.wrapping_mul(1664525).wrapping_add(1013904223);
        scale * ((seed >> 8) as f32 / (1 << 23) as f32 - 1.0)
    };
    Memory::of(&(0..count).map(|_| next()).collect::<Vec<f32>>())
}

/// Where the position of a token lies: in one place, or at another address for each token, which libhiprt finds out by
/// recording the launches again, or is told.
#[derive(PartialEq)]
enum Place {
    Same,
    Another,
    Told,
}

impl Engine {
    fn new() -> Self {
        check(unsafe { hiprt_open(null(), HIPRT_ABI) }, "hiprt_open");
        let module = Module::compile(SOURCE);
        Self {
            stream: Stream::new(),
            embed: Kernel::new(&module, c"embed", "rrw"),
            keep: Kernel::new(&module, c"keep", "rrb"), // the rest of the cache stays: it is read as well
            attend: Kernel::new(&module, c"attend", "rrrw"),
            project: Kernel::new(&module, c"project", "rrb"),
            choose: Kernel::new(&module, c"choose", "rrbbb"),
            _module: module,
            table: made_up(WORDS * WIDTH, 1.0, 1),
            weights: made_up(LAYERS * WIDTH * WIDTH, 0.6, 2),
            caches: Memory::new(LAYERS * TOKENS * WIDTH),
            x: Memory::new(WIDTH),
            y: Memory::new(WIDTH),
            token: Memory::new(1),
            at: Memory::new(1),
            said: Memory::new(TOKENS),
            places: Memory::of(&(0..TOKENS as i32).collect::<Vec<_>>()),
        }
    }

    /// The launches of a token that an engine would make without hiprt. at: where the position is read.
    fn issue_token(&self, at: Buffer) {
        let (stream, x, y) = (&self.stream, self.x.all(), self.y.all());
        stream.launch(&self.embed, &[self.table.all(), self.token.all(), x]);
        for layer in 0..LAYERS {
            let cache = self.caches.part(layer * TOKENS * WIDTH, TOKENS * WIDTH);
            stream.launch(&self.keep, &[x, at, cache]);
            stream.launch(&self.attend, &[x, cache, at, y]);
            stream.launch(&self.project, &[y, self.weights.part(layer * WIDTH * WIDTH, WIDTH * WIDTH), x]);
        }
        stream.launch(&self.choose, &[x, self.table.all(), self.token.all(), self.at.all(), self.said.all()]);
    }

    /// Decode TOKENS tokens from the start, print how, and return them.
    fn decode(&self, title: &str, rungs: u32, place: Place) -> Vec<i32> {
        self.token.set(&[0]);
        self.at.set(&[0]);
        self.said.set(&[0; TOKENS]);
        let step = Step::new(title, rungs, &self.stream);
        let (mut host, mut nodes) = (Duration::ZERO, 0);
        let start = Instant::now();
        for i in 0..TOKENS {
            let before = Instant::now();
            let at = self.places.part(i, 1);
            let outcome = if i > 0 && place == Place::Same && rungs == HIPRT_RUNGS {
                step.again()
            } else if i > 0 && place == Place::Told {
                step.moved(&[hiprt_move { start: at.address - 4, end: at.address, to: at.address }])
            } else {
                step.run(|| self.issue_token(if place == Place::Same { self.at.all() } else { at }))
            };
            host += before.elapsed();
            nodes = outcome.nodes;
            self.stream.wait(); // an engine reads its token here
        }
        let micros = |time: Duration| time.as_secs_f64() * 1e6 / TOKENS as f64;
        let taken = step.stats().rungs.into_iter().zip(RUNGS).filter(|(count, _)| *count > 0);
        let taken: String = taken.map(|(count, rung)| format!(" {count} {rung},")).collect();
        let (host, total) = (micros(host), micros(start.elapsed()));
        println!("{title:<14}{taken} {nodes} nodes; {host:.1} us of the host, {total:.1} us in all a token");
        self.said.get()
    }
}

fn main() {
    let engine = Engine::new();
    let in_memory = engine.decode("device memory", HIPRT_RUNGS, Place::Same);
    let by_address = engine.decode("addresses", HIPRT_RUNGS & !(1 << HIPRT_UPDATE), Place::Another);
    let moved = engine.decode("moves", HIPRT_RUNGS, Place::Told);
    let eagerly = engine.decode("eager", 1 << HIPRT_EAGER, Place::Same);
    let first: String = eagerly[..16].iter().map(|token| format!(" {token}")).collect();
    println!("tokens:{first} ...");
    assert!(in_memory == eagerly && by_address == eagerly && moved == eagerly, "OTHER TOKENS");
    println!("the same tokens each time");
}
