//! The frame of all our HTML pages: one file that needs no other, light or dark as the reader's system, readable on a phone.

/// The page's look. Drawings keep their white paper.
const STYLE: &str = "
:root { color-scheme: light dark; --line: #8884; --soft: #777; --good: #0a7d4f; --bad: #c2410c; --middling: #9a6700; }
@media (prefers-color-scheme: dark) { :root { --soft: #999; --good: #3fb98a; --bad: #f2813f; --middling: #d9a521; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1500px; margin: 2rem auto; padding: 0 1rem; overflow-wrap: break-word; }
h1 { margin-bottom: 0; } .lead { color: var(--soft); margin-top: .2rem; max-width: 60rem; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .8rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child, td.text, th.text { text-align: left; }
.wide { overflow-x: auto; } svg { background: #fff; }
.kept, .holds { color: var(--good); } .broken, .differs { color: var(--bad); font-weight: 600; }
";

/// A whole page: `title` and `lead` are text, `style` and `body` are as they stand.
pub fn frame(title: &str, lead: &str, style: &str, body: &str) -> String {
    let (title, lead) = (escape(title), escape(lead));
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><style>{STYLE}{style}</style></head><body>\
         <h1>{title}</h1><p class=\"lead\">{lead}</p>{body}</body></html>\n"
    )
}

/// Text as it stands between tags and in quotes.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
