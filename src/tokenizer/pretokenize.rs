//! Pre-tokenizers of byte-level BPE vocabularies in GGUF files, by `tokenizer.ggml.pre`.
//!
//! The patterns are those of the families' own `tokenizer.json`; the names are llama.cpp's.

use tokenizers::{
    NormalizerWrapper, PreTokenizerWrapper, SplitDelimiterBehavior,
    normalizers::NFC,
    pre_tokenizers::{
        byte_level::ByteLevel,
        sequence::Sequence,
        split::{Split, SplitPattern},
    },
};

use super::TokenizerError;

/// The pre-tokenizer of a name in `tokenizer.ggml.pre`.
pub(super) struct Family {
    names: &'static [&'static str],
    /// Patterns, applied in turn: each cuts the rest of the ones before it, and its matches are
    /// words.
    patterns: &'static [&'static str],
    /// The text is brought to Unicode's composed form first.
    composes: bool,
    /// A word that is a token stays one, whatever the merges say.
    pub(super) ignores_merges: bool,
    /// Texts begin with the beginning-of-sequence token where the file does not say.
    pub(super) adds_bos: bool,
}

const PLAIN: Family = Family {
    names: &[],
    patterns: &[],
    composes: false,
    ignores_merges: false,
    adds_bos: false,
};

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const LLAMA3: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const QWEN2: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const QWEN35: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}",
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const TEKKEN: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const GPT4O: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const DEEPSEEK_V3: &str = concat!(
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"##,
    r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*",
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
);
/// Letters of alphabets with upper and lower case. Compatibility characters are written by number,
/// so that no editor composes them away.
const DEEPSEEK_LLM_WORD: &str = concat!(
    r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕ",
    r"ἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\x{1F7D}ᾀ-ᾴᾶ-ᾼ\x{1FBE}ῂ-ῄῆ-ῌῐ-\x{1FD3}ῖ-\x{1FDB}ῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ",
    r"\x{2126}ℨ\x{212A}-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲",
    r"𑢠-𑣟𞤀-𞥃]+"
);

const FAMILIES: &[Family] = &[
    Family {
        names: &["default"],
        patterns: &[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
        ..PLAIN
    },
    Family {
        names: &[
            "gpt-2", "phi-2", "gigachat", "a.x-4.0", "mellum", "jais", "exaone4", "trillion",
        ],
        patterns: &[GPT2],
        ..PLAIN
    },
    Family {
        names: &["mpt", "olmo"],
        patterns: &[GPT2],
        composes: true,
        ..PLAIN
    },
    Family {
        names: &[
            "smollm",
            "starcoder",
            "refact",
            "codeshell",
            "exaone",
            "minerva-7b",
            "mellum2",
        ],
        patterns: &[r"\p{N}", GPT2],
        ..PLAIN
    },
    Family {
        names: &["command-r"],
        patterns: &[r"\p{N}", GPT2],
        composes: true,
        ..PLAIN
    },
    Family {
        names: &[
            "qwen2",
            "deepseek-r1-qwen",
            "hunyuan",
            "megrez",
            "solar-open",
            "stablelm2",
        ],
        patterns: &[QWEN2],
        composes: true,
        ..PLAIN
    },
    Family {
        names: &["grok-2"],
        patterns: &[QWEN2],
        ..PLAIN
    },
    Family {
        names: &["qwen35"],
        patterns: &[QWEN35],
        composes: true,
        ..PLAIN
    },
    Family {
        names: &[
            "llama-bpe",
            "llama3",
            "llama-v3",
            "falcon3",
            "falcon-h1",
            "lfm2",
            "pixtral",
        ],
        patterns: &[LLAMA3],
        ignores_merges: true,
        adds_bos: true,
        ..PLAIN
    },
    Family {
        names: &["glm4", "glm5"],
        patterns: &[LLAMA3],
        ignores_merges: true,
        ..PLAIN
    },
    Family {
        names: &["chatglm-bpe", "dbrx", "smaug-bpe"],
        patterns: &[LLAMA3],
        ..PLAIN
    },
    Family {
        names: &["tekken"],
        patterns: &[TEKKEN],
        ignores_merges: true,
        adds_bos: true,
        ..PLAIN
    },
    Family {
        names: &["gpt-4o", "llama4", "kanana2", "minimax-m2"],
        patterns: &[GPT4O],
        ..PLAIN
    },
    Family {
        names: &["deepseek-v3", "hunyuan-dense", "joyai-llm"],
        patterns: &[r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK_V3],
        ..PLAIN
    },
    Family {
        names: &["deepseek-coder"],
        patterns: &[
            r"[\r\n]",
            r"\s?\p{L}+",
            r"\s?\p{P}+",
            "[一-龥ࠀ-一가-퟿]+",
            r"\p{N}",
        ],
        ..PLAIN
    },
    Family {
        names: &["deepseek-llm"],
        patterns: &[
            r"[\r\n]",
            DEEPSEEK_LLM_WORD,
            r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
            r"\s+$",
            "[一-龥ࠀ-一가-퟿]+",
            r"\p{N}+",
        ],
        ..PLAIN
    },
    Family {
        names: &["falcon"],
        patterns: &[r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"],
        ..PLAIN
    },
];

impl Family {
    /// The family of a name; a file without one means `default`.
    pub(super) fn named(name: Option<&str>) -> Result<&'static Self, TokenizerError> {
        let name = name.unwrap_or("default");
        let family = FAMILIES.iter().find(|family| family.names.contains(&name));
        family.ok_or_else(|| {
            TokenizerError::Unsupported(format!("`tokenizer.ggml.pre` = `{name}`, a pre-tokenizer"))
        })
    }

    pub(super) fn normalizer(&self) -> Option<NormalizerWrapper> {
        self.composes.then_some(NormalizerWrapper::NFC(NFC))
    }

    pub(super) fn pre_tokenizer(&self) -> tokenizers::Result<PreTokenizerWrapper> {
        let split = |pattern: &&str| {
            let pattern = SplitPattern::Regex((*pattern).to_owned());
            let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false)?;
            Ok::<_, tokenizers::Error>(PreTokenizerWrapper::Split(split))
        };
        let mut stages: Vec<_> = self.patterns.iter().map(split).collect::<Result<_, _>>()?;
        stages.push(PreTokenizerWrapper::ByteLevel(ByteLevel::new(
            false, true, false,
        )));
        Ok(PreTokenizerWrapper::Sequence(Sequence::new(stages)))
    }
}

#[cfg(test)]
mod tests {
    use tokenizers::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer};

    use super::*;

    fn words(family: &str, text: &str) -> Vec<String> {
        let pre_tokenizer = Family::named(Some(family))
            .unwrap()
            .pre_tokenizer()
            .unwrap();
        let mut text = PreTokenizedString::from(text);
        pre_tokenizer.pre_tokenize(&mut text).unwrap();
        let splits = text.get_splits(OffsetReferential::Original, OffsetType::Byte);
        splits
            .into_iter()
            .map(|(word, _, _)| word.to_owned())
            .collect()
    }

    #[test]
    fn every_pattern_compiles_and_every_name_is_given_once() {
        let mut names: Vec<_> = FAMILIES.iter().flat_map(|family| family.names).collect();
        for family in FAMILIES {
            family.pre_tokenizer().unwrap();
        }
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }

    #[test]
    fn families_differ_in_digits_and_contractions() {
        assert_eq!(words("gpt-2", "it's 1234"), ["it", "'s", "Ġ1234"]);
        assert_eq!(
            words("smollm", "it's 1234"),
            ["it", "'s", "Ġ", "1", "2", "3", "4"]
        );
        assert_eq!(
            words("llama-bpe", "IT'S 1234"),
            ["IT", "'S", "Ġ", "123", "4"]
        );
        assert_eq!(words("qwen2", "a\n\n b"), ["a", "ĊĊ", "Ġb"]);
        assert_eq!(
            words("tekken", "camelCase x\u{302}y"),
            ["camel", "Case", "ĠxÌĤy"]
        );
        assert_eq!(
            words("gpt-4o", "HELLO'S x\u{302}Y"),
            ["HELLO'S", "ĠxÌĤ", "Y"]
        );
        assert_eq!(words("falcon", "12345"), ["123", "45"]);
    }

    #[test]
    fn an_unknown_name_is_refused_by_name() {
        let error = Family::named(Some("klingon")).err().unwrap();
        let expected = "the tokenizer has `tokenizer.ggml.pre` = `klingon`, a pre-tokenizer, which is not supported";
        assert_eq!(error.to_string(), expected);
        assert!(Family::named(None).is_ok());
    }
}
