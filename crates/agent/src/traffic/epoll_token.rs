//! The 64-bit number by which epoll names a descriptor.

/// A descriptor that the event loop watches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EpollToken {
    /// The timer of the loop.
    Timer,
    /// The eventfd of blocking writers: writes have returned.
    WritesReturned,
    /// The controller of a testbed, which says when the run ends.
    Control,
    /// A listening socket, by its index.
    Listener(usize),
    /// An endpoint, by its index.
    Endpoint(usize),
}

impl EpollToken {
    /// The number that epoll gives back with events.
    pub fn number(self) -> u64 {
        match self {
            EpollToken::Timer => 0,
            EpollToken::WritesReturned => u64::MAX,
            EpollToken::Control => u64::MAX - 1,
            EpollToken::Listener(i) => 1 + 2 * i as u64,
            EpollToken::Endpoint(i) => 2 + 2 * i as u64,
        }
    }

    /// The token of a number that epoll gave back.
    pub fn of(number: u64) -> EpollToken {
        let index = |n: u64| usize::try_from(n / 2).expect("fits memory");
        match number {
            0 => EpollToken::Timer,
            u64::MAX => EpollToken::WritesReturned,
            n if n == u64::MAX - 1 => EpollToken::Control,
            n if n % 2 == 1 => EpollToken::Listener(index(n - 1)),
            n => EpollToken::Endpoint(index(n - 2)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_token_has_a_number_of_its_own_and_is_found_by_it() {
        let tokens = [
            (EpollToken::Timer, 0),
            (EpollToken::Listener(0), 1),
            (EpollToken::Endpoint(0), 2),
            (EpollToken::Listener(7), 15),
            (EpollToken::Endpoint(7), 16),
            (EpollToken::WritesReturned, u64::MAX),
            (EpollToken::Control, u64::MAX - 1),
        ];
        for (token, number) in tokens {
            assert_eq!((token.number(), EpollToken::of(number)), (number, token));
        }
    }
}
