//! A library loaded before all others that lets calls to the disk fail, take long or do nothing.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// The source, in C because it takes the place of C functions.
const SOURCE: &str = include_str!("preload.c");

/// Builds the library in a folder, or says why that is not possible here.
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
