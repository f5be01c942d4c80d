//! A model's files → an engine on the device that suits the machine, or that was asked for.

use std::{
    io::{self, IsTerminal as _},
    path::Path,
};

use anyhow::bail;
use half::f16;
use indicatif::{ProgressBar, ProgressStyle};

use super::load_model::ModelOptions;
use crate::{
    cli::{DeviceArg, DtypeArg, KvTypeArg, QuantizeArg, SimdArg},
    engine::{self, EngineHandle},
    load::{LoadError, ModelFiles, Tensors},
    model::{
        self,
        exec::{
            Executor,
            cpu::{ActivationBits, CpuExecutor, CpuOptions, KvElement, Quantize, SimdLevel},
            mlx::{Backend, Dtype, MlxExecutor, MlxOptions},
        },
        spec::DecoderSpec,
    },
};

/// The executor that runs a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Device {
    Mlx,
    Cpu,
}

/// Loads the weights on the engine's own thread, where they stay. `is_delicate`: the model says other
/// things when its activations are quantised to 8 bits.
pub(super) fn start(
    files: ModelFiles,
    opening: &ModelOptions<'_>,
    is_delicate: bool,
) -> anyhow::Result<EngineHandle> {
    let arguments = opening.loading;
    match (device(arguments.device), arguments.kv_type) {
        (Device::Mlx, None) if arguments.quantize.is_none() => {
            let dtype = dtype(arguments.dtype);
            run(files, opening, move |spec, tensors, progress| {
                let options = MlxOptions {
                    dtype,
                    progress: Some(progress),
                    ..MlxOptions::default()
                };
                MlxExecutor::load(spec, tensors, &options)
            })
        }
        (Device::Mlx, _) => bail!("--kv-type and --quantize are for --device cpu; this is MLX"),
        (Device::Cpu, Some(KvTypeArg::F32)) => cpu_kernels::<f32>(files, opening, is_delicate),
        (Device::Cpu, None | Some(KvTypeArg::F16)) => {
            cpu_kernels::<f16>(files, opening, is_delicate)
        }
    }
}

fn device(asked: DeviceArg) -> Device {
    let is_apple = cfg!(all(target_os = "macos", target_arch = "aarch64"));
    match asked {
        DeviceArg::Cpu => Device::Cpu,
        DeviceArg::Mlx => Device::Mlx,
        DeviceArg::Auto if is_apple => Device::Mlx,
        DeviceArg::Auto => fastest(
            Backend::of_default_device() == Backend::Gpu,
            &SimdLevel::all(),
        ),
    }
}

fn fastest(has_gpu: bool, instructions: &[SimdLevel]) -> Device {
    match !has_gpu && instructions.contains(&SimdLevel::Avx2) {
        true => Device::Cpu,
        false => Device::Mlx,
    }
}

fn cpu_kernels<E: KvElement>(
    files: ModelFiles,
    opening: &ModelOptions<'_>,
    is_delicate: bool,
) -> anyhow::Result<EngineHandle> {
    let arguments = opening.loading;
    let threads = arguments.threads;
    let is_f32 = arguments.dtype == DtypeArg::F32;
    let activation_bits = match is_f32 || is_delicate && arguments.dtype == DtypeArg::Auto {
        true => ActivationBits::Sixteen,
        false => ActivationBits::Eight,
    };
    let quantize = arguments.quantize.map(quantize);
    let simd = arguments.simd.map(simd_level);
    run(files, opening, move |spec, tensors, progress| {
        let options = CpuOptions {
            threads,
            quantize,
            activation_bits,
            instructions: simd,
            progress: Some(progress),
        };
        CpuExecutor::<E>::load(spec, tensors, &options)
    })
}

/// Told how many layers are loaded, and of how many.
type Progress<'a> = &'a dyn Fn(usize, usize);

fn run<E: Executor + 'static>(
    files: ModelFiles,
    opening: &ModelOptions<'_>,
    load: impl FnOnce(&DecoderSpec, &dyn Tensors, Progress<'_>) -> Result<E, LoadError> + Send + 'static,
) -> anyhow::Result<EngineHandle> {
    let spec = model::describe(&files)?;
    let bar = bar(&files.path);
    let build = move || {
        let progress = |done: usize, all: usize| {
            bar.set_length(all as u64);
            bar.set_position(done as u64);
        };
        let executor = load(&spec, &*files.tensors, &progress);
        bar.finish_and_clear();
        executor.map_err(|error| error.to_string())
    };
    engine::start(opening.engine.clone(), build).map_err(anyhow::Error::msg)
}

fn dtype(argument: DtypeArg) -> Dtype {
    match argument {
        DtypeArg::Auto => Dtype::Auto,
        DtypeArg::F32 => Dtype::F32,
        DtypeArg::Bf16 => Dtype::Bf16,
        DtypeArg::F16 => Dtype::F16,
    }
}

fn quantize(argument: QuantizeArg) -> Quantize {
    match argument {
        QuantizeArg::Q8 => Quantize::Q8,
        QuantizeArg::Q4 => Quantize::Q4,
    }
}

fn simd_level(argument: SimdArg) -> SimdLevel {
    match argument {
        SimdArg::Avx512 => SimdLevel::Avx512,
        SimdArg::Avx2 => SimdLevel::Avx2,
        SimdArg::Portable => SimdLevel::Portable,
    }
}

/// Layers loaded, for a person who watches.
fn bar(path: &Path) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let name = path.file_name().unwrap_or(path.as_os_str());
    let style = ProgressStyle::with_template("{msg} {bar:30} {pos}/{len} layers")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(0)
        .with_style(style)
        .with_message(format!("loading {}", name.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_kernels_are_the_default_where_mlx_has_no_accelerator() {
        use SimdLevel::{Avx2, Avx512, Portable};
        let fast = [Avx512, Avx2, Portable];
        assert_eq!(fastest(false, &fast), Device::Cpu);
        assert_eq!(fastest(true, &fast), Device::Mlx);
        assert_eq!(fastest(false, &[Portable]), Device::Mlx);
        assert_eq!(device(DeviceArg::Mlx), Device::Mlx);
        assert_eq!(device(DeviceArg::Cpu), Device::Cpu);
    }
}
