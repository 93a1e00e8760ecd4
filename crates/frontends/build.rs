//! Embeds the page that `cargo xtask page` has built into `web/built/page`: each file with its type, its digest and its
//! compressed form. Without a built page the program works too, and shows a note at `/`.

use std::{
    env,
    error::Error,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

fn main() -> Result<(), Box<dyn Error>> {
    let built = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../web/built");
    // With a missing path, as in a source package without `web/`, cargo would run this script each time.
    if built.is_dir() {
        println!("cargo::rerun-if-changed={}", built.display());
    }
    println!("cargo::rerun-if-changed=build.rs");
    let page = built.join("page");
    let mut files = Vec::new();
    if page.join("index.html").is_file() {
        collect(&page, &page, &mut files)?;
    }
    files.sort();

    let mut table = String::from("[\n");
    for (path, file) in &files {
        let bytes = fs::read(file)?;
        let small = PathBuf::from(format!("{}.br", file.display()));
        let compressed = if small.is_file() {
            format!("Some(include_bytes!({}))", literal(&small)?)
        } else {
            "None".to_owned()
        };
        writeln!(
            table,
            "    File {{ path: {path:?}, kind: {:?}, etag: \"\\\"{:016x}\\\"\", plain: include_bytes!({}), brotli: {compressed} }},",
            kind(path),
            digest(&bytes),
            literal(file)?,
        )?;
    }
    table.push(']');
    fs::write(Path::new(&env::var("OUT_DIR")?).join("page.rs"), table)?;
    Ok(())
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<(String, PathBuf)>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, files)?;
        } else if path.extension().is_none_or(|extension| extension != "br") {
            let name = path.strip_prefix(root)?.to_str().ok_or("a built file whose name is not UTF-8")?;
            let name = if name == "index.html" { "/".to_owned() } else { format!("/{name}") };
            files.push((name, path));
        }
    }
    Ok(())
}

/// A path as Rust source.
fn literal(path: &Path) -> Result<String, Box<dyn Error>> {
    let whole = path.canonicalize()?;
    Ok(format!("{:?}", whole.to_str().ok_or("the clone lies in a folder whose name is not UTF-8")?))
}

fn kind(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("webmanifest") => "application/manifest+json",
        _ if path == "/" => "text/html; charset=utf-8",
        _ => "application/octet-stream",
    }
}

/// FNV-1a: only distinguishes two builds of a file.
fn digest(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
