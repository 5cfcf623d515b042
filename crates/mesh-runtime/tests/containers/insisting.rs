//! A credential that is insisted on, and what comes of a container that is made anew for it.

use mesh_model::{ModuleState, PublicKey, Restart};
use mesh_runtime::Desired;

use crate::engine::Engine;
use crate::host::{Host, until, wants};

/// The same module with another key, and no other that it may go on with.
fn insisted(mut wanted: Desired, key: u8) -> Desired {
    wanted.workload.key = PublicKey::from_raw([key; 32]);
    wanted.workload.accepts.clear();
    wanted
}

#[tokio::test]
async fn what_is_made_anew_for_its_credential_and_is_bad_is_tried_again_and_the_order_ends() {
    for restart in [Restart::Always, Restart::Never] {
        let engine = Engine::start();
        engine.delivers("shop:1", vec![]);
        let mut wanted = wants("m", "1", "shop:1");
        wanted.workload.restart = restart;
        let host = Host::open(&engine).await;
        host.apply([wanted.clone()]).await;
        host.runs("m").await;
        let old = engine.only("m").id;
        engine.change(|world| world.crashes.insert("shop:1".to_owned(), 1));
        host.apply([insisted(wanted, 1)]).await;
        host.says("m", "exited with status 1").await;
        assert_eq!(engine.asked("POST /containers/create"), 2, "{restart:?}");
        if restart == Restart::Never {
            let report = host.until("m", |it| it.state == ModuleState::Failed).await;
            assert_eq!(report.reason.as_deref(), Some("exited with status 1"));
            let left = engine.only("m");
            assert_ne!(left.id, old, "what may not go on does not");
            assert_eq!(left.starts, 1);
            continue;
        }
        let starts = || engine.of("m").iter().map(|it| it.starts).sum::<u32>();
        let before = starts();
        until("it is tried again", || starts() > before + 3).await;
        assert_eq!(engine.asked("POST /containers/create"), 2);
        engine.change(|world| world.crashes.clear());
        host.runs("m").await;
        until("the first is gone", || engine.of("m").len() == 1).await;
        assert_ne!(engine.only("m").id, old);
    }
}
