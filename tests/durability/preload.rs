//! An LD_PRELOAD library that makes disk calls fail, delay or do nothing.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// The source. It is C because it replaces functions of the C library.
const SOURCE: &str = include_str!("preload.c");

/// Builds the library in a folder. The error is the reason why that is impossible here.
pub(super) fn build(dir: &Path) -> Result<PathBuf, String> {
    let (source, library) = (dir.join("preload.c"), dir.join("preload.so"));
    std::fs::write(&source, SOURCE).unwrap();
    let compiler = ["cc", "gcc", "clang"].into_iter().find(|name| {
        Command::new(name)
            .arg("--version")
            .output()
            .is_ok_and(|out| out.status.success())
    });
    let Some(compiler) = compiler.filter(|_| cfg!(target_os = "linux")) else {
        return Err("it needs Linux and a C compiler".into());
    };
    let built = Command::new(compiler)
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &source])
        .arg("-ldl")
        .output()
        .unwrap();
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    Ok(library)
}
