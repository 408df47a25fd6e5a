//! Dispatch of system calls by name.

use super::args::{Attempt, Tried, bad_argument, unsupported};
use super::open::socket;
use super::socket::File;
use super::state::Model;
use crate::ast::{Call, Expr};

impl Model {
    /// Tries a call once.
    pub(super) fn attempt(&mut self, call: &Call) -> Tried {
        let args = &call.args;
        let takes = !matches!(
            call.name.as_str(),
            "socket" | "poll" | "open" | "epoll_create" | "epoll_create1" | "pipe"
        );
        if let (true, Some(Expr::Int(fd))) = (takes, args.first())
            && !self.files.contains_key(fd)
        {
            return Ok(Attempt::Error("EBADF"));
        }
        match call.name.as_str() {
            "socket" => socket(args),
            "bind" | "connect" | "getsockname" | "getpeername" | "setsockopt" | "getsockopt" | "poll"
                if bad_argument(call) =>
            {
                Ok(Attempt::Error("EFAULT"))
            }
            "bind" => {
                self.socket_of(args)?.bound = true;
                Ok(Attempt::Done(0))
            }
            "listen" => self.listen(args),
            "accept" | "accept4" => self.accept(args),
            "connect" => self.connect(args),
            "read" | "recv" | "recvfrom" | "readv" | "recvmsg" => self.receive(call),
            "write" | "send" | "sendto" | "writev" | "sendmsg" => self.send(call),
            "shutdown" => self.shutdown(args),
            "close" => self.close(args),
            "fcntl" => self.fcntl(args),
            "ioctl" => self.ioctl(args),
            "setsockopt" => self.setsockopt(args),
            "getsockopt" => self.getsockopt(args),
            "poll" => self.poll(args),
            "epoll_create" | "epoll_create1" => Ok(Attempt::New(Box::new(File::Epoll(Vec::new())))),
            "epoll_ctl" => self.epoll_ctl(args),
            "epoll_wait" => self.epoll_wait(args),
            "open" => Ok(Attempt::New(Box::new(File::Plain))),
            "pipe" => self.pipe(args),
            "splice" | "sendfile" => self.splice(call),
            "getsockname" | "getpeername" => Ok(Attempt::Done(0)),
            other => unsupported(format!("the system call `{other}`")),
        }
    }
}
