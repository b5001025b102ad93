//! Which node of a cluster has which slot.

use crate::domain::redis_url::RedisHost;
use crate::schedule::redis::info::text;
use redis::Value;

/// The number of slots of a cluster.
const SLOTS: u16 = 16_384;

/// The slot of all keys whose hash tag is this text (CRC-16/XMODEM, modulo the number of slots).
pub fn slot_of_tag(tag: &str) -> u16 {
    let crc = tag.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| match crc & 0x8000 {
            0 => crc << 1,
            _ => (crc << 1) ^ 0x1021,
        })
    });
    crc % SLOTS
}

/// The slots of a cluster, as a node described them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlotMap {
    /// In the order of the slots, without overlaps.
    ranges: Vec<SlotRange>,
    /// Every node, primaries first.
    nodes: Vec<RedisHost>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct SlotRange {
    from: u16,
    to: u16,
    host: RedisHost,
}

impl SlotMap {
    /// Reads the reply to `CLUSTER SLOTS`; `None` if it is something else. `asked` is the node that gave it: where the
    /// reply names no host, that host is meant.
    pub fn parse(reply: &Value, asked: &RedisHost) -> Option<Self> {
        let Value::Array(lines) = reply else {
            return None;
        };
        let (mut ranges, mut primaries, mut replicas) = (Vec::new(), Vec::new(), Vec::new());
        for line in lines {
            let Value::Array(parts) = line else {
                return None;
            };
            let [Value::Int(from), Value::Int(to), primary, rest @ ..] = &parts[..] else {
                return None;
            };
            let (from, to) = (u16::try_from(*from).ok()?, u16::try_from(*to).ok()?);
            if from > to || to >= SLOTS {
                return None;
            }
            let host = parse_node(primary, asked)?;
            primaries.push(host.clone());
            replicas.extend(rest.iter().filter_map(|node| parse_node(node, asked)));
            ranges.push(SlotRange { from, to, host });
        }
        ranges.sort_by_key(|range| range.from);
        let overlaps = ranges.windows(2).any(|pair| pair[0].to >= pair[1].from);
        let mut nodes = Vec::new();
        for node in primaries.into_iter().chain(replicas) {
            if !nodes.contains(&node) {
                nodes.push(node);
            }
        }
        (!overlaps).then_some(Self { ranges, nodes })
    }

    /// The primary of a slot.
    pub fn primary(&self, slot: u16) -> Option<&RedisHost> {
        let place = self.ranges.partition_point(|range| range.to < slot);
        let range = self.ranges.get(place)?;
        (range.from <= slot).then_some(&range.host)
    }

    /// Every node, primaries first.
    pub fn nodes(&self) -> &[RedisHost] {
        &self.nodes
    }

    /// How many slots have a primary.
    pub fn covered(&self) -> u32 {
        let many = |range: &SlotRange| u32::from(range.to - range.from) + 1;
        self.ranges.iter().map(many).sum()
    }

    /// Notes that a slot has moved to another primary.
    pub fn move_slot(&mut self, slot: u16, host: RedisHost) {
        if slot >= SLOTS {
            return;
        }
        let mut ranges = Vec::with_capacity(self.ranges.len() + 2);
        for range in self.ranges.drain(..) {
            let SlotRange {
                from,
                to,
                host: owner,
            } = range;
            if slot < from || slot > to {
                ranges.push(SlotRange {
                    from,
                    to,
                    host: owner,
                });
                continue;
            }
            if from < slot {
                let (to, host) = (slot - 1, owner.clone());
                ranges.push(SlotRange { from, to, host });
            }
            if slot < to {
                let (from, host) = (slot + 1, owner);
                ranges.push(SlotRange { from, to, host });
            }
        }
        if !self.nodes.contains(&host) {
            self.nodes.push(host.clone());
        }
        ranges.push(SlotRange {
            from: slot,
            to: slot,
            host,
        });
        ranges.sort_by_key(|range| range.from);
        self.ranges = ranges;
    }
}

fn parse_node(node: &Value, asked: &RedisHost) -> Option<RedisHost> {
    let Value::Array(parts) = node else {
        return None;
    };
    let [host, Value::Int(port), ..] = &parts[..] else {
        return None;
    };
    let host = text(host).unwrap_or_default();
    Some(RedisHost {
        host: named_or(&host, asked),
        port: u16::try_from(*port).ok()?,
    })
}

/// The host of a node. A node that does not know its own host writes none, or a question mark.
fn named_or(host: &str, asked: &RedisHost) -> String {
    match host {
        "" | "?" => asked.host.clone(),
        host => host.to_string(),
    }
}

/// The address in a redirection, `HOST:PORT`; an IPv6 address has no brackets there.
pub fn parse_redirect(address: &str, asked: &RedisHost) -> Option<RedisHost> {
    let (host, port) = address.rsplit_once(':')?;
    Some(RedisHost {
        host: named_or(host.trim_matches(['[', ']']), asked),
        port: port.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> RedisHost {
        parse_redirect(
            text,
            &RedisHost {
                host: "asked".to_string(),
                port: 1,
            },
        )
        .expect(text)
    }

    fn map(text: &str) -> Option<SlotMap> {
        let text = text.replace(' ', "\r\n") + "\r\n";
        let reply = redis::parse_redis_value(text.as_bytes()).expect("a reply");
        SlotMap::parse(&reply, &host("asked:1"))
    }

    #[test]
    fn slots_are_those_of_redis() {
        // From CLUSTER KEYSLOT of Redis 7.0.
        assert_eq!(slot_of_tag("123456789"), 12_739);
        assert_eq!(slot_of_tag(""), 0);
        assert_eq!(slot_of_tag("foo"), 12_182);
    }

    #[test]
    fn a_map_says_which_node_has_a_slot_and_follows_moves() {
        let text = "*2 *4 :10 :20 *2 $1 b :2 *2 $1 c :3 *3 :0 :8 *2 $0  :5";
        let mut map = map(text).expect("a map");
        let check = |map: &SlotMap, slot: u16, expected: Option<&str>| {
            assert_eq!(map.primary(slot), expected.map(host).as_ref(), "{slot}");
        };
        check(&map, 0, Some("asked:5"));
        check(&map, 8, Some("asked:5"));
        check(&map, 9, None);
        check(&map, 10, Some("b:2"));
        check(&map, 20, Some("b:2"));
        check(&map, 21, None);
        assert_eq!(map.covered(), 20);
        assert_eq!(map.nodes(), [host("b:2"), host("asked:5"), host("c:3")]);
        map.move_slot(15, host("d:4"));
        map.move_slot(9, host("d:4"));
        map.move_slot(0, host("d:4"));
        map.move_slot(SLOTS, host("d:4"));
        for (slot, expected) in [
            (0, "d:4"),
            (1, "asked:5"),
            (9, "d:4"),
            (14, "b:2"),
            (15, "d:4"),
            (16, "b:2"),
        ] {
            check(&map, slot, Some(expected));
        }
        assert_eq!(map.covered(), 21);
        map.move_slot(15, host("b:2"));
        check(&map, 15, Some("b:2"));
    }

    #[test]
    fn what_is_no_map_is_refused() {
        for text in ["*0", "*1 *3 :0 :16383 *2 $1 a :1"] {
            assert!(map(text).is_some(), "{text}");
        }
        for text in [
            "$1 a",
            "*1 :1",
            "*1 *2 :0 :1",
            "*1 *3 :0 :16384 *2 $1 a :1",
            "*1 *3 :2 :1 *2 $1 a :1",
            "*1 *3 :0 :1 *2 $1 a :65536",
            "*2 *3 :0 :5 *2 $1 a :1 *3 :5 :6 *2 $1 b :1",
        ] {
            assert!(map(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_redirection_without_a_host_means_the_host_that_was_asked() {
        assert_eq!(host("10.0.0.1:7000").to_string(), "10.0.0.1:7000");
        assert_eq!(host(":7000").to_string(), "asked:7000");
        assert_eq!(host("?:7000").to_string(), "asked:7000");
        assert_eq!(host("::1:7000").to_string(), "[::1]:7000");
        let asked = host("asked:1");
        assert_eq!(parse_redirect("a", &asked), None);
        assert_eq!(parse_redirect("a:65536", &asked), None);
    }
}
