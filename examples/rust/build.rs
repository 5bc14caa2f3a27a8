//! Say where libhiprt and the HIP library are: in the hiprt of `PYTHON`, and in `HIP_LIBRARIES`, or else in the folder of
//! hiprt's CPU device.
use std::env::var;
use std::process::Command;

fn main() {
    let python = var("PYTHON").unwrap_or_else(|_| "python".into());
    let asked = Command::new(&python).args(["-c", "import hiprt; print(hiprt.__path__[0])"]).output();
    let answer = asked.unwrap_or_else(|error| panic!("{python}: {error}"));
    assert!(answer.status.success(), "{python} has no hiprt: {}", String::from_utf8_lossy(&answer.stderr));
    let package = String::from_utf8(answer.stdout).expect("a path").trim().to_string();
    let hip = var("HIP_LIBRARIES").unwrap_or_else(|_| format!("{package}/cpu"));
    for folder in [format!("{package}/native/lib"), hip] {
        println!("cargo:rustc-link-search=native={folder}");
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
    }
    println!("cargo:rustc-link-lib=hiprt");
    println!("cargo:rustc-link-lib=amdhip64");
    println!("cargo:rerun-if-env-changed=PYTHON");
    println!("cargo:rerun-if-env-changed=HIP_LIBRARIES");
}
