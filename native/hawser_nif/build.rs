//! Linker options of the NIF library. On Linux it is never unmapped: rustler has no unload, and a thread, a resource
//! destructor or a select callback may still be inside when the VM drops the last version of the stub module.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
