//! SVG to PNG. Works on a machine without fonts: a free font is built in.

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};
use std::sync::{Arc, OnceLock};

/// One of our drawings as a PNG file, a pixel for each SVG unit.
///
/// # Panics
/// If `svg` is not an SVG, which would be our bug.
pub(super) fn png(svg: &str) -> Vec<u8> {
    let options = Options { fontdb: fonts(), ..Options::default() };
    let tree = Tree::from_str(svg, &options)
        .unwrap_or_else(|error| panic!("our own drawing is not an SVG: {error}"));
    let size = tree.size().to_int_size();
    let mut pixels = Pixmap::new(size.width(), size.height()).expect("a drawing has a size");
    resvg::render(&tree, Transform::default(), &mut pixels.as_mut());
    pixels
        .encode_png()
        .unwrap_or_else(|error| panic!("{}×{} pixels make no PNG: {error}", size.width(), size.height()))
}

/// The fonts of the machine are not used: the same findings give the same bytes everywhere.
fn fonts() -> Arc<fontdb::Database> {
    static FONTS: OnceLock<Arc<fontdb::Database>> = OnceLock::new();
    FONTS
        .get_or_init(|| {
            let mut fonts = fontdb::Database::new();
            fonts.load_font_data(epaint_default_fonts::UBUNTU_LIGHT.to_vec());
            // For the few signs that the first font lacks.
            fonts.load_font_data(epaint_default_fonts::HACK_REGULAR.to_vec());
            fonts.set_sans_serif_family("Ubuntu");
            Arc::new(fonts)
        })
        .clone()
}
