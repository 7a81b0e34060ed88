//! `cargo xtask dist`: the release binary without debug info, and the debug info in a file beside it.
//!
//! A debugger or `addr2line` finds the debug info by the link that the binary keeps.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result};
use clap::Args;

use crate::process::{cargo, run as run_command};
use crate::workspace_root;

#[derive(Args)]
pub(crate) struct DistArguments {
    /// Build without the development commands: dev, devchain, sim, bench
    #[arg(long)]
    lean: bool,
}

/// The cargo arguments of the lean build.
pub(crate) const LEAN: [&str; 3] = ["--no-default-features", "--features", "jemalloc"];

pub(crate) fn run(arguments: &DistArguments) -> Result<ExitCode> {
    let root = workspace_root();
    let target = root.join("target");
    let mut build = cargo();
    build.args(["build", "--release", "--package", "gapless", "--target-dir"]).arg(&target);
    if arguments.lean {
        build.args(LEAN);
    }
    run_command(&mut build)?;
    let out = target.join("dist");
    fs::create_dir_all(&out)?;
    let (binary, debug) = (out.join("gapless"), out.join("gapless.debug"));
    fs::copy(target.join("release/gapless"), &binary)?;
    objcopy(&out, &["--only-keep-debug", "gapless", "gapless.debug"])?;
    objcopy(&out, &["--strip-unneeded", "--add-gnu-debuglink=gapless.debug", "gapless"])?;
    for file in [&binary, &debug] {
        println!("{}: {:.1} MB", file.display(), fs::metadata(file)?.len() as f64 / 1e6);
    }
    Ok(ExitCode::SUCCESS)
}

/// `objcopy` is part of binutils, which every Linux linker comes with.
fn objcopy(folder: &Path, arguments: &[&str]) -> Result<()> {
    run_command(Command::new("objcopy").current_dir(folder).args(arguments)).context("objcopy (package binutils)")
}
