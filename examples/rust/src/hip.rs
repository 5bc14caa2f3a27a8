//! The functions of HIP that the engine calls itself.
use std::ffi::{c_char, c_int, c_uint, c_void};

pub const TO_DEVICE: c_int = 1; // hipMemcpyKind
pub const TO_HOST: c_int = 2;
pub const NON_BLOCKING: c_uint = 1; // hipStreamNonBlocking

extern "C" {
    pub fn hipMalloc(out: *mut *mut c_void, nbytes: usize) -> c_int;
    pub fn hipFree(memory: *mut c_void) -> c_int;
    pub fn hipMemcpy(to: *mut c_void, from: *const c_void, nbytes: usize, kind: c_int) -> c_int;
    pub fn hipStreamCreateWithFlags(out: *mut *mut c_void, flags: c_uint) -> c_int;
    pub fn hipStreamDestroy(stream: *mut c_void) -> c_int;
    pub fn hipModuleLoadData(out: *mut *mut c_void, code: *const c_void) -> c_int;
    pub fn hipModuleUnload(module: *mut c_void) -> c_int;
    pub fn hipModuleGetFunction(out: *mut *mut c_void, module: *mut c_void, name: *const c_char) -> c_int;
    pub fn hiprtcCreateProgram(
        out: *mut *mut c_void,
        source: *const c_char,
        name: *const c_char,
        n_headers: c_int,
        headers: *const *const c_char,
        include_names: *const *const c_char,
    ) -> c_int;
    pub fn hiprtcCompileProgram(program: *mut c_void, n_options: c_int, options: *const *const c_char) -> c_int;
    pub fn hiprtcGetCodeSize(program: *mut c_void, out: *mut usize) -> c_int;
    pub fn hiprtcGetCode(program: *mut c_void, out: *mut c_char) -> c_int;
    pub fn hiprtcDestroyProgram(program: *mut *mut c_void) -> c_int;
}
