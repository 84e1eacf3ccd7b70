//! The format of `/metrics` that a scraper prefers (RFC 9110, 12.5.1).

use axum::http::{HeaderMap, header};
use mime::Mime;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Protobuf,
}

impl Format {
    /// Protobuf if the request accepts it at least as gladly as text; text for all others, whatever they accept.
    pub(crate) fn accepted(headers: &HeaderMap) -> Format {
        let (mut text, mut protobuf) = (0.0, 0.0);
        let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
        for kind in
            accepts.flat_map(|accept| accept.split(',')).filter_map(|kind| kind.trim().parse::<Mime>().ok())
        {
            let of = match (kind.type_().as_str(), kind.subtype().as_str()) {
                ("text", "plain") => &mut text,
                ("application", "vnd.google.protobuf") if is_delimited_family(&kind) => &mut protobuf,
                _ => continue,
            };
            *of = weight(&kind).max(*of);
        }
        if protobuf > 0.0 && protobuf >= text { Format::Protobuf } else { Format::Text }
    }

    /// The media type.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Format::Text => metrics::TEXT_KIND,
            Format::Protobuf => metrics::PROTOBUF_KIND,
        }
    }
}

/// Whether the parameters name the one message and the one encoding that there are.
fn is_delimited_family(kind: &Mime) -> bool {
    let is = |name, value| kind.get_param(name).is_some_and(|given| given == value);
    is("proto", "io.prometheus.client.MetricFamily") && is("encoding", "delimited")
}

/// How gladly a kind is accepted: 1 without `q`, 0 with one that is no number.
fn weight(kind: &Mime) -> f32 {
    kind.get_param("q")
        .map_or(1.0, |q| q.as_str().parse().ok().filter(|q: &f32| (0.0..=1.0).contains(q)).unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAMILY: &str =
        "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";

    fn of(accept: &str) -> Format {
        Format::accepted(&HeaderMap::from_iter([(header::ACCEPT, accept.parse().expect("a header"))]))
    }

    #[test]
    fn protobuf_is_sent_to_who_prefers_it_and_text_to_all_others() {
        let native = format!(
            "{FAMILY},application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
        );
        for accept in
            [&*native, FAMILY, &format!("text/plain, {FAMILY}"), &format!("garbage/,{FAMILY};q=0.1")]
        {
            assert_eq!(of(accept), Format::Protobuf, "{accept}");
        }
        let without = FAMILY.replace("delimited", "text");
        for accept in [
            "",
            "*/*",
            "application/openmetrics-text",
            &without,
            &format!("{FAMILY};q=0"),
            &format!("{FAMILY};q=nan"),
            &format!("{FAMILY};q=0.4,text/plain;q=0.5"),
        ] {
            assert_eq!(of(accept), Format::Text, "{accept}");
        }
        assert_eq!(Format::accepted(&HeaderMap::new()), Format::Text);
    }
}
