//! Writes the files under `schemas/` again: `cargo run -p portolan-frontends --features schema --example schemas`.

use std::{error::Error, fs, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let insights = portolan_frontends::insights::schema::generate();
    for (path, text) in portolan_frontends::schema::generate().into_iter().chain(insights) {
        fs::write(root.join(path), text)?;
    }
    Ok(())
}
