//! From an event to the screen.

use super::screen::Screen;
use super::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::json;

fn event(ios: u64, waited: f64) -> Value {
    let rates = |ios: u64, length: u64, waited: f64| {
        json!({ "ios": { "read": ios, "other": 0.0 }, "bytes": { "read": length * ios, "write": 0.0 },
                "wait_seconds": { "share": waited } })
    };
    json!({
        "connections": 3, "refused": { "auth_failed": 2, "no_proof": 0 },
        "devices": [{
            "device": "a", "per_second": rates(2 * ios, 4096, 0.0),
            "queued_ios": 5, "in_flight_ios": 7, "hung_ios": 0, "busy": 0, "turn_seconds": 0.0, "known_tenants": 30,
            "io_seconds": { "read": { "count": 4, "p99_seconds": 0.00012 } },
            "tenants": [
                { "kind": "host", "host": "nqn.quiet", "per_second": rates(ios, 4096, 0.0),
                  "io_seconds": { "read": { "p50_seconds": 0.0001, "p99_seconds": 0.0002 }, "write": { "p99_seconds": 0.5 } },
                  "credit_ios": 16, "queued_ios": 0, "slo_kept": 0 },
                { "kind": "host", "host": "nqn.\u{1b}[2Jloud", "per_second": rates(ios, 8192, waited) },
            ],
        }],
    })
}

fn drawn(screen: &Screen) -> String {
    let mut terminal = Terminal::new(TestBackend::new(160, 20)).expect("a buffer");
    terminal.draw(|frame| screen.draw(frame)).expect("it is drawn");
    terminal.backend().to_string()
}

#[test]
fn rates_are_those_of_the_event_and_names_are_made_safe() {
    let sight = Sight::of(&event(100, 0.5));
    let device = &sight.devices[0];
    assert_eq!((device.ios, device.bytes), (200.0, 819_200.0));
    let [quiet, loud] = &device.tenants[..] else { panic!("two") };
    assert_eq!((quiet.ios, quiet.bytes, quiet.latency), (100.0, 409_600.0, [Some(0.0001), Some(0.5)]));
    assert_eq!((loud.waits[0], loud.name.as_str()), (0.5, "nqn.\u{FFFD}[2Jloud"));
    assert_eq!(sight.refused, [("auth_failed".to_owned(), 2)]);
}

#[test]
fn the_screen_shows_devices_and_tenants_and_obeys_keys() {
    let mut screen = Screen::new(Sort::Bytes);
    screen.sight = Some(Sight::of(&event(200, 0.5)));
    let text = drawn(&screen);
    for wanted in
        ["3 connections", "as usual", "nqn.quiet", "MISSED", "50 %", "refused so far: 2", "0.50 s", "120 us"]
    {
        assert!(text.contains(wanted), "{wanted} is missing:\n{text}");
    }
    let place = |text: &str, of: &str| text.find(of).expect("it is there");
    assert!(place(&text, "loud") < place(&text, "nqn.quiet"), "most bytes first");
    (0..3).for_each(|_| assert!(screen.on_key(KeyCode::Char('s')).is_continue()));
    let text = drawn(&screen);
    assert!(text.contains("by host"), "{text}");
    "/quiet".chars().for_each(|typed| assert!(screen.on_key(KeyCode::Char(typed)).is_continue()));
    assert!(screen.on_key(KeyCode::Enter).is_continue());
    let text = drawn(&screen);
    assert!(!text.contains("loud") && text.contains("only \"quiet\""), "{text}");
    assert!(screen.on_key(KeyCode::Char('q')).is_break());
}

#[test]
fn the_table_says_what_it_hides() {
    let text = screen::table(&Sight::of(&event(2, 0.0)), Sort::Host);
    assert!(text.contains("28 more tenants are in the device's totals only"), "{text}");
    assert!(!text.contains('\u{1b}'), "nothing moves the cursor");
}
