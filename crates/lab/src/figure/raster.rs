//! SVG to PNG, with letters on a machine without any font: they come from a free one that is built in.

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};
use std::sync::{Arc, OnceLock};

/// One of our drawings as a PNG file, a pixel for each SVG unit.
///
/// # Panics
/// If `svg` is no SVG: the drawing is our own.
pub(super) fn png(svg: &str) -> Vec<u8> {
    let options = Options { fontdb: fonts(), ..Options::default() };
    let tree =
        Tree::from_str(svg, &options).unwrap_or_else(|error| panic!("our own drawing is no SVG: {error}"));
    let size = tree.size().to_int_size();
    let mut pixels = Pixmap::new(size.width(), size.height()).expect("a drawing has a size");
    resvg::render(&tree, Transform::default(), &mut pixels.as_mut());
    pixels
        .encode_png()
        .unwrap_or_else(|error| panic!("{}×{} pixels make no PNG: {error}", size.width(), size.height()))
}

/// The machine's own are not asked: the same findings give the same bytes everywhere.
fn fonts() -> Arc<fontdb::Database> {
    static FONTS: OnceLock<Arc<fontdb::Database>> = OnceLock::new();
    FONTS
        .get_or_init(|| {
            let mut fonts = fontdb::Database::new();
            fonts.load_font_data(epaint_default_fonts::UBUNTU_LIGHT.to_vec());
            // For the few signs that the first has not.
            fonts.load_font_data(epaint_default_fonts::HACK_REGULAR.to_vec());
            fonts.set_sans_serif_family("Ubuntu");
            Arc::new(fonts)
        })
        .clone()
}
