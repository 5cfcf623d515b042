//! What is too large for the bus it is to be carried to.

use super::*;

#[tokio::test(start_paused = true)]
async fn what_the_other_bus_never_takes_is_parked_once_and_what_comes_after_it_is_carried() {
    for (from, to) in [("b", "a"), ("a", "b")] {
        let mesh = start(settings());
        mesh.apply(declared(from, to, to)).await;
        let bus = |node: &str| if node == "b" { &mesh.amqp } else { &mesh.nats };
        bus(to).set_largest(1 << 10);
        let shop = bus(from).module(instance(&format!("shop@{from}")));
        let hand = bus(to).module(instance(&format!("hand@{to}")));
        let (shop, hand) = (shop.unwrap(), hand.unwrap());
        let mut follows = hand.listen(Source::Followed).await.unwrap();
        let mut works = hand.listen(Source::Seat(desk())).await.unwrap();
        let large = vec![7; 2 << 10];
        let sold = "sold".parse().unwrap();
        shop.emit(&sold, "large", large.clone()).await.unwrap();
        shop.send(&desk(), "large", large.clone()).await.unwrap();
        emit(&shop, "1").await;
        send(&shop, "2").await;
        assert_eq!(all(&hand, &mut follows).await, ["1"]);
        assert_eq!(all(&hand, &mut works).await, ["2"]);
        sleep(Duration::from_mins(5)).await;
        let mut parked = bus(from).parked();
        parked.sort_by(|one, other| one.subject.cmp(&other.subject));
        let of: Vec<&str> = parked.iter().map(|it| it.subject.as_str()).collect();
        let expected = [
            "mesh.parked.carry.clerk.shop.sold",
            "mesh.parked.carry.hand.shop.sold",
            "mesh.parked.seat.desk.shop",
        ];
        assert_eq!(of, expected);
        for copy in &parked {
            assert_eq!(copy.body, large);
            assert!(
                copy.why.contains("takes 1024 bytes at most"),
                "{}",
                copy.why
            );
        }
        assert_eq!(bus(to).parked(), []);
        assert_eq!(bus(from).unsettled(&followed("hand")), 0);
        assert_eq!(bus(from).stored(&subject::seat_stream(&desk())), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_parked_either_is_kept_where_it_is() {
    let mesh = start(settings());
    mesh.apply(declared("b", "a", "a")).await;
    let shop = mesh.amqp.module(instance("shop@b")).unwrap();
    let work = subject::work(&desk(), &"shop".parse().unwrap());
    mesh.nats.set_largest(8);
    let parks = subject::parked_stream();
    shop.send(&desk(), "large", vec![7; 9]).await.unwrap();
    mesh.amqp.set_largest(8);
    sleep(Duration::from_mins(1)).await;
    let seat = subject::seat_stream(&desk());
    assert_eq!((mesh.amqp.stored(&seat), mesh.amqp.stored(&parks)), (1, 0));
    mesh.amqp.set_largest(9);
    mesh.until(async || mesh.amqp.stored(&seat) == 0).await;
    let parked = mesh.amqp.parked();
    assert_eq!(parked.len(), 1, "{parked:?}");
    assert_eq!(parked[0].subject, subject::parked(&work));
}
