//! What a controller that knows neither bus does to begin with.

use mesh_derive::{Bounds, derive, in_parts};

use super::*;

#[tokio::test(start_paused = true)]
async fn neither_bus_is_changed_before_both_are_there() {
    let [nats, amqp] = BusKind::ALL.map(|bus| Loopback::standing_for(bus, facts()));
    let both = Both::new(nats.controller(), amqp.controller());
    let bounds = Bounds::default();
    both.make_streams(&mesh_derive::own_streams(&bounds))
        .await
        .unwrap();
    both.take_over().await.unwrap();
    let mut records = Records::new("proof".parse().unwrap(), facts());
    records.declared = declared("a", "b", "a");
    let mut plan = derive(&records, &bounds);
    in_parts(&mut plan, &records, &BusKind::ALL.into());

    for away in [&nats, &amqp] {
        away.set_up(false);
        sleep(Duration::from_secs(1)).await;
        let refused = both.assert(&plan).await.unwrap_err();
        assert!(matches!(refused, BusError::Away(_)), "{refused}");
        away.set_up(true);
        sleep(Duration::from_secs(1)).await;
    }
    // All of it is still to be written on either.
    let written = both.assert(&plan).await.unwrap().written;
    for (bus, at_least) in BusKind::ALL.map(|bus| (bus, plan.consumers.len())) {
        let of_bus = written
            .iter()
            .filter(|it| it.starts_with(&format!("{bus}: ")));
        assert!(of_bus.count() >= at_least, "{written:?}");
    }
}
