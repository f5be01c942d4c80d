//! The program on either device: at temperature 0 both say the same.

use std::{process::Command, sync::PoisonError};

use super::real::{ONE_AT_A_TIME, cached};

const PROMPTS: [&str; 2] = [
    "What is the capital of France?",
    "Name three primary colours.",
];

/// Returns the output of `stemma generate`.
fn generated(model: &str, device: &str, prompt: &str) -> String {
    // 32-bit floats on MLX, and the equivalent on the CPU kernels.
    let output = Command::new(env!("CARGO_BIN_EXE_stemma"))
        .args(["generate", "--model", model, "--device", device])
        .args(["--dtype", "f32", "--temperature", "0"])
        .args(["--max-tokens", "24", prompt])
        .output()
        .expect("the program starts");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{model} on {device}: {complaint}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn both_devices_say_the_same() {
    for model in ["smollm2", "qwen2.5-coder-0.5b", "gemma3-270m"] {
        if cached(model).is_none() {
            continue;
        }
        let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        for prompt in PROMPTS {
            let [mlx, own] = ["mlx", "cpu"].map(|device| generated(model, device, prompt));
            assert!(mlx.trim().len() > 5, "{model}: {mlx:?}");
            assert_eq!(own, mlx, "{model}: {prompt}");
        }
    }
}
