//! A way to a server on loopback that can be made slow, stopped and cut.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

/// How what the server says comes through. What it is told comes through at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// As it comes.
    Free,
    /// So many bytes a second, all connections together.
    Slow(u32),
    /// Not at all, and nobody is told.
    Stalled,
    /// Whoever is connected is cut off, and so is whoever comes.
    Cut,
}

/// The way. Dropped, whoever goes it is cut off.
#[derive(Debug)]
pub struct Proxy {
    at: SocketAddr,
    state: Arc<State>,
    accepts: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct State {
    now: Mutex<Now>,
    changed: Condvar,
}

#[derive(Debug)]
struct Now {
    flow: Flow,
    ended: bool,
    /// How many bytes the server said that came through.
    passed: u64,
    /// When something may come through a slow way again.
    next: Instant,
    /// Both ends of all that goes this way.
    streams: Vec<TcpStream>,
}

impl Proxy {
    /// Opens one to a server, free.
    #[expect(
        clippy::disallowed_methods,
        reason = "how many bytes come through in a second is what this is about"
    )]
    pub fn to(server: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let at = listener.local_addr()?;
        let state = Arc::new(State {
            now: Mutex::new(Now {
                flow: Flow::Free,
                ended: false,
                passed: 0,
                next: Instant::now(),
                streams: Vec::new(),
            }),
            changed: Condvar::new(),
        });
        let accepting = Arc::clone(&state);
        let accepts = thread::spawn(move || accept(&listener, server, &accepting));
        Ok(Self {
            at,
            state,
            accepts: Some(accepts),
        })
    }

    /// Where the server is reached by it.
    pub const fn at(&self) -> SocketAddr {
        self.at
    }

    /// Has it be so from now on.
    pub fn set(&self, flow: Flow) {
        let mut now = self.state.now();
        now.flow = flow;
        if flow == Flow::Cut {
            now.cut();
        }
        self.state.changed.notify_all();
    }

    /// How many bytes the server said that came through.
    pub fn passed(&self) -> u64 {
        self.state.now().passed
    }

    /// Waits until so many bytes came through.
    pub fn wait_for(&self, bytes: u64, deadline: Duration) -> anyhow::Result<()> {
        let now = self.state.now();
        let waited = self
            .state
            .changed
            .wait_timeout_while(now, deadline, |now| now.passed < bytes);
        let (now, _) = waited.unwrap_or_else(PoisonError::into_inner);
        ensure!(
            now.passed >= bytes,
            "{} of {bytes} bytes came through within {deadline:?}",
            now.passed
        );
        Ok(())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let mut now = self.state.now();
        now.ended = true;
        now.cut();
        drop(now);
        self.state.changed.notify_all();
        // Somebody who comes is what it waits for.
        let _comes = TcpStream::connect(self.at);
        if let Some(accepts) = self.accepts.take() {
            let _ended = accepts.join();
        }
    }
}

impl State {
    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until so many bytes, or some of them, may come through; none when nothing may any more.
    #[expect(
        clippy::disallowed_methods,
        reason = "how many bytes come through in a second is what this is about"
    )]
    fn may_pass(&self, wanted: usize) -> Option<usize> {
        let mut now = self.now();
        loop {
            let at = Instant::now();
            let pause = match now.flow {
                _ if now.ended => return None,
                Flow::Cut => return None,
                Flow::Free => return Some(wanted),
                Flow::Stalled => FOR_EVER,
                Flow::Slow(rate) => {
                    let pause = now.next.saturating_duration_since(at);
                    if pause.is_zero() {
                        let (share, takes) = share(rate, wanted);
                        now.next = now.next.max(at) + takes;
                        return Some(share);
                    }
                    pause
                }
            };
            let waited = self.changed.wait_timeout(now, pause);
            (now, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn passed(&self, bytes: usize) {
        self.now().passed += u64::try_from(bytes).unwrap_or_default();
        self.changed.notify_all();
    }
}

impl Now {
    fn cut(&mut self) {
        for stream in self.streams.drain(..) {
            // It may be cut already.
            let _cut = stream.shutdown(Shutdown::Both);
        }
    }
}

/// How many bytes may come through at once, and how long nothing may after them.
fn share(rate: u32, wanted: usize) -> (usize, Duration) {
    let rate = rate.max(1);
    let most = usize::try_from(rate / TURNS).unwrap_or(wanted).max(1);
    let share = wanted.min(most);
    let bytes = u32::try_from(share).unwrap_or(u32::MAX);
    (share, Duration::from_secs(1) * bytes / rate)
}

fn accept(listener: &TcpListener, server: SocketAddr, state: &Arc<State>) {
    for client in listener.incoming() {
        if state.now().ended {
            return;
        }
        // Who is not let through finds the connection ended.
        let _led = client
            .map_err(anyhow::Error::from)
            .and_then(|client| lead(client, server, state));
    }
}

/// Leads a connection through, in both directions.
fn lead(client: TcpStream, server: SocketAddr, state: &Arc<State>) -> anyhow::Result<()> {
    ensure!(state.now().flow != Flow::Cut, "nobody comes through");
    let server = TcpStream::connect(server).context("the server is away")?;
    let ends = [client.try_clone()?, server.try_clone()?];
    state.now().streams.extend(ends);
    let (mut told, mut telling) = (server.try_clone()?, client.try_clone()?);
    thread::spawn(move || {
        let _ended = std::io::copy(&mut telling, &mut told);
        let _told = told.shutdown(Shutdown::Write);
    });
    let state = Arc::clone(state);
    thread::spawn(move || {
        let _ended = say(&server, &client, &state);
        let _told = client.shutdown(Shutdown::Both);
        let _heard = server.shutdown(Shutdown::Both);
    });
    Ok(())
}

/// Passes on what the server says, as it may.
fn say(mut server: &TcpStream, mut client: &TcpStream, state: &State) -> std::io::Result<()> {
    let mut buffer = [0; 16 << 10];
    loop {
        let read = server.read(&mut buffer)?;
        let mut rest = buffer.get(..read).unwrap_or_default();
        if rest.is_empty() {
            return Ok(());
        }
        while !rest.is_empty() {
            let Some(passes) = state.may_pass(rest.len()) else {
                return Ok(());
            };
            let (first, later) = rest.split_at_checked(passes).unwrap_or((rest, &[]));
            client.write_all(first)?;
            state.passed(first.len());
            rest = later;
        }
    }
}

/// In how many turns what may come through in a second comes.
const TURNS: u32 = 20;
/// Longer than any test, and short enough to be waited for.
const FOR_EVER: Duration = Duration::from_hours(1);

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that says so many bytes to whoever comes.
    fn server(bytes: usize) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                // Who is cut off hears no more.
                let _said = stream.unwrap().write_all(&vec![7; bytes]);
            }
        });
        at
    }

    fn heard(at: SocketAddr) -> usize {
        hear(TcpStream::connect(at).unwrap())
    }

    fn hear(mut stream: TcpStream) -> usize {
        let mut all = Vec::new();
        // One that is cut ends with an error, perhaps.
        let _ended = stream.read_to_end(&mut all);
        all.len()
    }

    #[test]
    fn everything_comes_through_a_way_that_is_free_and_nothing_through_one_that_is_cut() {
        let proxy = Proxy::to(server(100_000)).unwrap();
        assert_eq!(heard(proxy.at()), 100_000);
        proxy.set(Flow::Cut);
        assert_eq!(heard(proxy.at()), 0);
        proxy.set(Flow::Free);
        assert_eq!(heard(proxy.at()), 100_000);
        assert_eq!(proxy.passed(), 200_000);
    }

    #[test]
    fn a_slow_way_lets_no_more_through_in_a_second_than_it_may() {
        let (share, takes) = share(1_000, 16_000);
        assert_eq!((share, takes), (50, Duration::from_millis(50)));
        let (share, takes) = super::share(1_000_000, 400);
        assert_eq!((share, takes), (400, Duration::from_micros(400)));
    }

    #[test]
    fn who_waits_on_a_stalled_way_goes_on_when_it_is_free_and_is_cut_off_when_it_is_gone() {
        let proxy = Proxy::to(server(50_000)).unwrap();
        proxy.set(Flow::Slow(200_000));
        let at = proxy.at();
        let hears = thread::spawn(move || heard(at));
        proxy.wait_for(10_000, Duration::from_secs(20)).unwrap();
        proxy.set(Flow::Stalled);
        let passed = proxy.passed();
        assert!(passed < 50_000, "{passed}");
        proxy.set(Flow::Free);
        assert_eq!(hears.join().unwrap(), 50_000);

        proxy.set(Flow::Stalled);
        let stream = TcpStream::connect(at).unwrap();
        let hears = thread::spawn(move || hear(stream));
        drop(proxy);
        assert_eq!(hears.join().unwrap(), 0);
    }
}
