//! A decoder-only transformer described as data, so that one executor runs every architecture.

/// Everything an executor must know about an architecture, apart from the weights.
#[derive(Debug, Clone, PartialEq)]
pub struct DecoderSpec {
    /// `model_type` of `config.json`.
    pub model_type: String,
    /// Number of tokens in the vocabulary.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width inside the feed-forward layers.
    pub intermediate_size: usize,
    /// Number of query heads.
    pub head_count: usize,
    /// Number of key and value heads.
    pub kv_head_count: usize,
    /// Width of one head.
    pub head_dim: usize,
    /// The layers, first to last.
    pub layers: Vec<LayerSpec>,
    /// All RMS norms.
    pub norm: NormSpec,
    /// Tensor names.
    pub names: WeightNames,
    /// True if the q, k and v projections have biases.
    pub qkv_bias: bool,
    /// True if attention's output projection has a bias.
    pub output_bias: bool,
    /// True if the feed-forward projections have biases.
    pub mlp_bias: bool,
    /// True if each query and key head is normalised.
    pub qk_norm: bool,
    /// The feed-forward gate's non-linearity.
    pub activation: Activation,
    /// Factor on token embeddings.
    pub embedding_scale: f32,
    /// Factor on query·key products.
    pub attention_scale: f32,
    /// `cap · tanh(x / cap)` on attention scores.
    pub attention_soft_cap: Option<f32>,
    /// `cap · tanh(x / cap)` on logits.
    pub logit_soft_cap: Option<f32>,
    /// True if the output projection is the embedding matrix.
    pub tied_embeddings: bool,
    /// Largest number of tokens of one sequence.
    pub context_length: usize,
}

/// Tensor names, as far as architectures differ in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightNames {
    /// Prefix of `embed_tokens`, `layers.N` and `norm`, with the final dot.
    pub decoder: String,
    /// The output projection, where it is not the embedding matrix.
    pub head: String,
    /// The norm before the feed-forward, below `layers.N`.
    pub feed_forward_norm: &'static str,
    /// The norms of the outputs of attention and feed-forward before these are added to the
    /// residual stream, where the architecture has them (Gemma).
    pub post_norms: Option<PostNorms>,
}

/// Names, below `layers.N`, of the norms after attention and after the feed-forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PostNorms {
    /// The norm of attention's output.
    pub attention: &'static str,
    /// The norm of the feed-forward's output.
    pub feed_forward: &'static str,
}

/// The fields that differ between layers.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerSpec {
    /// Number of most recent tokens that attention sees (the query's own included); `None` sees all.
    pub window: Option<usize>,
    /// Rotary embedding of this layer.
    pub rope: Rope,
}

/// A rotary position embedding over the two halves of a head (not interleaved).
#[derive(Debug, Clone, PartialEq)]
pub struct Rope {
    /// Base of the frequencies.
    pub theta: f32,
    /// RoPE scaling beyond the trained context length.
    pub scaling: RopeScaling,
}

/// Rotary scaling schemes.
#[derive(Debug, Clone, PartialEq)]
pub enum RopeScaling {
    /// None.
    None,
    /// Positions divided by a factor.
    Linear {
        /// The divisor.
        factor: f32,
    },
    /// Llama 3's scheme: low frequencies divided, high ones kept, a smooth passage between.
    Llama3 {
        /// Divisor of low frequencies.
        factor: f32,
        /// Wavelengths above `original_length / low_freq_factor` are low-frequency.
        low_freq_factor: f32,
        /// Wavelengths below `original_length / high_freq_factor` are high-frequency.
        high_freq_factor: f32,
        /// Context length the model was first trained on.
        original_length: usize,
    },
}

/// RMS normalisation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NormSpec {
    /// Added to the mean square.
    pub eps: f32,
    /// True if the stored weight `w` means a factor `1 + w` (Gemma).
    pub unit_offset: bool,
}

/// Non-linearities of the gated feed-forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// `x · sigmoid(x)`.
    Silu,
    /// GELU, tanh approximation.
    GeluTanh,
}
