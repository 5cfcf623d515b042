//! Addresses as they are written, and what a wrong one is told.

use super::*;

#[test]
fn an_address_is_read_and_written_again() {
    for (text, written) in [
        ("amqps://bus.example/mesh", "amqps://bus.example:5671/mesh"),
        ("amqps://bus.example:99", "amqps://bus.example:99/%2F"),
        ("amqp://127.0.0.1/a%2Fb", "amqp://127.0.0.1:5672/a%2Fb"),
        ("amqp://[::1]:7/mesh", "amqp://[::1]:7/mesh"),
        (
            "amqp://localhost/m?users=home.",
            "amqp://localhost:5672/m?users=home.",
        ),
    ] {
        let url: BrokerUrl = text.parse().unwrap();
        assert_eq!(url.to_string(), written);
        assert_eq!(written.parse(), Ok(url));
    }
    let url: ManagementUrl = "https://bus.example".parse().unwrap();
    assert_eq!(url.to_string(), "https://bus.example:15671");
}

#[test]
fn an_account_is_taken_out_of_an_address_and_never_shown() {
    let text = "amqps://admin:p%40ss@bus.example/mesh";
    let (url, account) = BrokerUrl::with_account(text).unwrap();
    let account = account.unwrap();
    assert_eq!(
        (account.user.as_str(), account.password.as_str()),
        ("admin", "p@ss")
    );
    let shown = format!(
        "{url} {url:?} {account:?} {}",
        text.parse::<BrokerUrl>().unwrap_err()
    );
    assert!(
        !shown.contains("p%40ss") && !shown.contains("p@ss"),
        "{shown}"
    );
    for hostless in [
        "amqps://admin:secret",
        "admin:secret",
        "amqps://admin:0secret",
    ] {
        let error = BrokerUrl::with_account(hostless).unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }
    let wrong = "amqp://admin:secret@bus.example/mesh";
    let error = BrokerUrl::with_account(wrong).unwrap_err().to_string();
    assert!(
        !error.contains("secret") && error.contains("bus.example"),
        "{error}"
    );
}

#[test]
fn what_would_cross_a_network_readable_is_refused_with_the_reason() {
    for (text, scheme) in [
        ("amqp://bus.example/mesh", "amqps://"),
        ("amqp://192.0.2.1/mesh", "amqps://"),
        ("amqp://[2001:db8::1]/mesh", "amqps://"),
    ] {
        let error = text.parse::<BrokerUrl>().unwrap_err().to_string();
        assert!(
            error.contains("for everybody to read") && error.contains(scheme),
            "{error}"
        );
    }
    let error = "http://bus.example".parse::<ManagementUrl>().unwrap_err();
    assert!(error.to_string().contains("write https://"), "{error}");
    assert!("http://127.0.0.1:15672/".parse::<ManagementUrl>().is_ok());
}

#[test]
fn what_is_no_address_is_told_how_one_looks() {
    for text in [
        "",
        "bus.example",
        "tls://bus.example",
        "amqps://",
        "amqps://:5671/mesh",
        "amqps://bus.example:port/mesh",
        "amqps://bus example/mesh",
        "amqps://bus.example/m%2",
        "amqps://bus.example/mesh?user=x",
        "amqps://bus.example/mesh?users=a/b",
        "amqps://admin@bus.example/mesh",
        "amqps://[bus]/mesh",
    ] {
        let error = BrokerUrl::with_account(text).unwrap_err();
        assert!(matches!(error, InvalidUrl::Form { .. }), "{text}: {error}");
        assert!(error.to_string().contains("amqps://bus.example:5671/mesh"));
    }
}

#[test]
fn several_servers_are_one_broker_or_nothing() {
    let of = |urls: &[&str]| Endpoint::of_urls(urls, None, "test");
    let endpoint = of(&["amqp://127.0.0.1/m?users=a.", "amqp://[::1]:7/m?users=a."]).unwrap();
    assert_eq!(
        endpoint.servers,
        [("127.0.0.1".to_owned(), 5672), ("::1".to_owned(), 7)]
    );
    assert_eq!(
        (endpoint.vhost.as_str(), endpoint.users.as_str()),
        ("m", "a.")
    );
    for other in [
        "amqps://bus.example/m",
        "amqp://[::1]/n",
        "amqp://[::1]/m?users=a.",
    ] {
        let error = of(&["amqp://127.0.0.1/m", other]).unwrap_err();
        assert!(
            matches!(error, InvalidUrl::Another { .. }),
            "{other}: {error}"
        );
    }
    let error = of(&["amqps://bus.example/m"]).unwrap_err();
    assert!(matches!(error, InvalidUrl::Untrusted { .. }), "{error}");
    assert_eq!(of(&[]).unwrap_err(), InvalidUrl::None);
}
