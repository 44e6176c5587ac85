//! The lock names that keys make.

use std::fmt;

use leasehold::{Error, LockClient, current_lock, locked};

use crate::shop::Shop;

struct Order {
    id: u64,
    lines: [&'static str; 2],
}

impl Order {
    fn number(&self, offset: u64) -> u64 {
        self.id + offset
    }
}

enum Business {
    Orders,
}

impl fmt::Display for Business {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Orders => f.write_str("Business1"),
        }
    }
}

const PREFIX: &str = "Business2";
const KEY: &str = "the {only} one";

type Named = leasehold::Result<String>;

fn name() -> Named {
    let lock = current_lock();
    lock.check()?;
    Ok(lock.name().to_owned())
}

struct Desk {
    locks: LockClient,
    shop: String,
}

impl Desk {
    #[locked(
        client = self.locks,
        key = "{self.shop}:{order.id}:{order.number(2)}:{order.lines[1]}",
    )]
    fn fields(&self, order: &Order) -> Named {
        name()
    }

    #[locked(
        client = self.locks,
        key = "{id:>05}/{order.id:08.3?}/{ratio:.2}/{{id}}",
        prefix = Business::Orders,
    )]
    fn formats(&self, id: u64, order: &Order, ratio: &str) -> Named {
        name()
    }

    #[locked(client = self.locks, key = "{u64::MAX}:{Self::code(\"a:}b\")}", prefix = PREFIX)]
    fn paths(&self) -> Named {
        name()
    }

    #[locked(client = self.locks, key = "{type}:{ r#match :>3}")]
    fn keywords(&self, r#type: &str, r#match: u8) -> Named {
        name()
    }

    #[locked(client = self.locks, key = KEY)]
    fn constant(&self) -> Named {
        name()
    }

    #[locked(client = self.locks, key = format!("order:{}", order.id))]
    fn expression(&self, order: Order) -> Named {
        let Order { id, .. } = order;
        assert_eq!(id, 7);
        name()
    }

    #[locked(client = self.locks, key = format_args!("#{id}"))]
    fn signed(&self, id: u64) -> Named {
        name()
    }

    #[locked(client = self.locks, key = name)]
    fn given(&self, name: &str) -> leasehold::Result<()> {
        Ok(())
    }

    #[locked(client = self.locks, key = "{name}")]
    fn formatted(&self, name: &str) -> leasehold::Result<()> {
        Ok(())
    }

    fn code(text: &str) -> usize {
        text.len()
    }
}

fn desk() -> (Shop, Desk) {
    let shop = Shop::open();
    let locks = shop.locks.clone();
    let desk = Desk {
        locks,
        shop: "corner".into(),
    };
    (shop, desk)
}

#[test]
fn a_key_can_use_parameters_fields_and_calls() {
    let (_shop, desk) = desk();
    let order = Order {
        id: 7,
        lines: ["tea", "cake"],
    };
    assert_eq!(desk.fields(&order).unwrap(), "corner:7:9:cake");
    assert_eq!(
        desk.formats(42, &order, "ratio").unwrap(),
        "Business1:00042/00000007/ra/{id}"
    );
    assert_eq!(desk.paths().unwrap(), "Business2:18446744073709551615:4");
    assert_eq!(desk.keywords("tea", 7).unwrap(), "tea:  7");
    assert_eq!(desk.constant().unwrap(), "the {only} one");
    assert_eq!(desk.expression(order).unwrap(), "order:7");
    assert_eq!(desk.signed(7).unwrap(), "#7");
}

#[test]
fn a_key_is_a_name_of_1_to_512_bytes() {
    let (shop, desk) = desk();
    for bad in [String::new(), "x".repeat(513)] {
        for result in [desk.given(&bad), desk.formatted(&bad)] {
            assert!(
                matches!(
                    result,
                    Err(Error::InvalidArgument {
                        argument: "name",
                        ..
                    })
                ),
                "{result:?}"
            );
        }
    }
    for good in ["x".repeat(512), "größe ☃".into()] {
        desk.given(&good).unwrap();
    }
    let keys: u32 = shop.server.ask(&redis::cmd("DBSIZE"));
    assert_eq!(keys, 0);
}
