//! Whether the ports a container is to have are free, looked at before its engine is asked to start it.
//!
//! An engine finds that by itself. Podman 4.3 with netavark 1.4 does so after it has set its rules, and takes them away
//! again together with those of the container that has the port: nobody reaches that one any more.

use std::io;
use std::net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket};

use mesh_model::{Container, Port, Protocol};

use crate::container::fault::Fault;

/// What is wrong with the first port that somebody has; nothing when all are free, or may not be looked at.
pub(super) fn taken(container: &Container) -> Option<Fault> {
    let port = container.ports.iter().find(|port| is_taken(port))?;
    let why = format!("something of this host listens on port {}", port.host);
    Some(Fault::PortTaken { why })
}

fn is_taken(port: &Port) -> bool {
    let address = port.address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let at = (address, port.host);
    let bound = match port.protocol {
        Protocol::Tcp => TcpListener::bind(at).map(drop),
        Protocol::Udp => UdpSocket::bind(at).map(drop),
    };
    bound.is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_somebody_listens_on_is_taken_until_he_does_no_more() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (tcp, udp) = (listener.local_addr().unwrap(), socket.local_addr().unwrap());
        let of = |port: String| {
            let mut container = Container::new("shop:1".parse().unwrap());
            container.ports = [port.parse().unwrap()].into();
            taken(&container).map(|fault| fault.to_string())
        };
        let (tcp, udp) = (
            format!("127.0.0.1:{}:80", tcp.port()),
            format!("127.0.0.1:{}:80/udp", udp.port()),
        );
        for port in [&tcp, &udp] {
            let said = of(port.clone()).unwrap();
            assert!(said.contains("a port it is to have is taken"), "{said}");
        }
        drop((listener, socket));
        assert_eq!((of(tcp), of(udp)), (None, None));
    }
}
