//! What an engine that plays along has, and what it answers.

use serde_json::{Value, json};

use crate::engine::{Made, World, message};
use crate::http::Request;

impl World {
    pub(crate) fn made(&mut self, key: &str) -> Option<&mut Made> {
        self.containers
            .iter_mut()
            .find(|made| made.id == key || made.name == key)
    }

    /// Ends a container.
    pub(crate) fn end(&mut self, key: &str, code: i64) {
        if let Some(made) = self.made(key) {
            made.state = "exited";
            made.code = code;
            made.ended += 1;
        }
    }

    fn create(&mut self, name: &str, body: &Value) -> (u16, Value) {
        let image = body["Image"].as_str().unwrap_or_default().to_owned();
        if !self.images.contains_key(&image) {
            return (404, message(&format!("No such image: {image}")));
        }
        if self.made(name).is_some() {
            let text = format!(
                "Conflict. The container name \"/{name}\" is already in use by container \"x\"."
            );
            return (409, message(&text));
        }
        let mounts = body["HostConfig"]["Mounts"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let source = |mount: &Value| mount["Source"].as_str().unwrap_or_default().to_owned();
        for mount in mounts.iter().filter(|mount| mount["Type"] == "volume") {
            let labels = mount["VolumeOptions"]["Labels"].clone();
            self.volumes.entry(source(mount)).or_insert(labels);
        }
        if mounts
            .iter()
            .any(|mount| source(mount).starts_with("/missing"))
        {
            let text =
                "invalid mount config for type \"bind\": bind source path does not exist: /missing";
            return (400, message(text));
        }
        self.next += 1;
        let id = format!("{:064x}", self.next);
        self.containers.push(Made {
            id: id.clone(),
            name: name.to_owned(),
            body: body.clone(),
            state: "created",
            code: 0,
            image,
            starts: 0,
            ended: 0,
            born: self.next,
        });
        (201, json!({"Id": id, "Warnings": []}))
    }

    fn start(&mut self, key: &str) -> (u16, Value) {
        let crashes = self.crashes.clone();
        let Some(made) = self.made(key) else {
            return (404, message("No such container: x"));
        };
        made.starts += 1;
        made.state = "running";
        if let Some(code) = crashes.get(&made.image) {
            made.state = "exited";
            made.code = *code;
            made.ended += 1;
        }
        (204, Value::Null)
    }
}

impl Made {
    fn inspected(&self) -> Value {
        json!({
            "Id": self.id,
            "Name": format!("/{}", self.name),
            "Created": format!("2026-01-01T00:00:{:02}.000000000Z", self.born),
            "Image": self.image,
            "Config": {"Labels": self.body["Labels"]},
            "State": {
                "Status": self.state,
                "Running": self.state == "running" || self.state == "paused",
                "Paused": self.state == "paused",
                "Pid": if self.state == "running" { 4711 } else { 0 },
                "ExitCode": self.code,
                "FinishedAt": format!("2026-01-01T00:01:{:02}.000000000Z", self.ended),
            },
        })
    }
}

pub(crate) fn reply(request: &Request, world: &mut World) -> (u16, Value) {
    let parts: Vec<&str> = request.path.trim_matches('/').split('/').collect();
    let absent = || (404, message("No such container: x"));
    match (request.method.as_str(), parts.as_slice()) {
        ("GET", ["version"]) => (200, json!({"ApiVersion": "1.41", "Version": "20.10.24"})),
        ("GET", ["info"]) => (200, json!({"DockerRootDir": world.root})),
        ("GET", ["containers", "json"]) => {
            let filters: Value = serde_json::from_str(request.asked("filters").unwrap()).unwrap();
            let wanted = filters["label"].as_array().unwrap().clone();
            let has = |made: &&Made| {
                wanted.iter().all(|label| {
                    let (name, value) = label.as_str().unwrap().split_once('=').unwrap();
                    made.body["Labels"][name] == value
                })
            };
            let found = world.containers.iter().filter(has);
            (
                200,
                found
                    .map(|made| json!({"Id": made.id, "State": "running"}))
                    .collect(),
            )
        }
        ("POST", ["containers", "create"]) => {
            let name = request.asked("name").unwrap().to_owned();
            world.create(&name, &request.body)
        }
        ("GET", ["containers", key, "json"]) => world
            .made(key)
            .map_or_else(absent, |made| (200, made.inspected())),
        ("POST", ["containers", key, "start"]) => world.start(key),
        ("POST", ["containers", key, "stop"]) => {
            let known = world.made(key).is_some();
            world.end(key, 143);
            if known { (204, Value::Null) } else { absent() }
        }
        ("POST", ["containers", key, "unpause"]) => world.made(key).map_or_else(absent, |made| {
            made.state = "running";
            (204, Value::Null)
        }),
        ("POST", ["containers", key, "rename"]) => {
            let name = request.asked("name").unwrap().to_owned();
            world.made(key).map_or_else(absent, |made| {
                made.name = name;
                (204, Value::Null)
            })
        }
        ("DELETE", ["containers", key]) => {
            assert_eq!(
                request.asked("v"),
                Some("true"),
                "no volume without a name stays"
            );
            let known = world.made(key).is_some();
            world.containers.retain(|made| made.id != *key);
            if known { (204, Value::Null) } else { absent() }
        }
        _ => reply_of_others(request.method.as_str(), &parts, world),
    }
}

/// What it answers of what is no container.
fn reply_of_others(method: &str, parts: &[&str], world: &mut World) -> (u16, Value) {
    match (method, parts) {
        ("GET", ["volumes", name]) if world.volumes.contains_key(*name) => {
            let volume = json!({"Name": name, "Driver": "local", "Mountpoint": "/", "Labels": world.volumes[*name], "Scope": "local", "Options": {}});
            (200, volume)
        }
        ("DELETE", ["volumes", name]) => {
            world.volumes.remove(*name);
            (204, Value::Null)
        }
        ("GET", ["images", name @ .., "json"]) => {
            let name = name.join("/");
            let found = world.images.get(&name).cloned();
            let repository = name.split(['@', ':']).next().unwrap_or_default().to_owned();
            let Some(digest) = found else {
                return (404, message("No such image: x"));
            };
            let digests = [format!("{repository}@{digest}")];
            (200, json!({"Id": name, "RepoDigests": digests}))
        }
        _ => (404, message("page not found")),
    }
}
