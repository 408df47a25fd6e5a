//! The values of parameter `topology`.

use std::str::FromStr;

/// The value of parameter `topology`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shape {
    /// One sender, one receiver, one link.
    Pair,
    /// This number of pairs over one link.
    Dumbbell(u32),
    /// This number of senders, one receiver, one switch.
    Star(u32),
    /// Leaf-spine: storage racks send to worker racks.
    Racks {
        /// Racks of senders.
        storage: u32,
        /// Racks of receivers.
        worker: u32,
    },
    /// From a file.
    File(String),
}

impl FromStr for Shape {
    type Err = String;
    fn from_str(text: &str) -> Result<Shape, String> {
        let count = |t: &str| match t.parse::<u32>() {
            Ok(n) if (1..=4096).contains(&n) => Ok(n),
            _ => Err(format!("`{t}` is not a number from 1 to 4096")),
        };
        match text.split_once(':') {
            None if text == "pair" => Ok(Shape::Pair),
            Some(("dumbbell", n)) => Ok(Shape::Dumbbell(count(n)?)),
            Some(("star", n)) => Ok(Shape::Star(count(n)?)),
            Some(("racks", racks)) => {
                let (storage, worker) = racks.split_once('x').ok_or("the `x` is missing")?;
                Ok(Shape::Racks { storage: count(storage)?, worker: count(worker)? })
            }
            Some(("file", "")) => Err("the file's name is missing".to_owned()),
            Some(("file", name)) => Ok(Shape::File(name.to_owned())),
            _ => Err(String::new()),
        }
    }
}
