//! Dispatch of system calls by name.

use super::args::{bad_argument, unsupported};
use super::socket::File;
use super::state::Model;
use crate::ast::{Expr, Syscall};
use crate::run::target::{ScriptError, SyscallResult};

impl Model {
    /// Makes a call, or makes a call that blocked again.
    pub(super) fn try_syscall(&mut self, call: &Syscall) -> Result<SyscallResult, ScriptError> {
        let args = &call.args;
        let takes = !matches!(
            call.name.as_str(),
            "socket" | "poll" | "open" | "epoll_create" | "epoll_create1" | "pipe"
        );
        if let (true, Some(Expr::Int(fd))) = (takes, args.first())
            && !self.files.contains_key(fd)
        {
            return Ok(SyscallResult::errno("EBADF"));
        }
        match call.name.as_str() {
            "socket" => self.socket(args),
            "bind" | "connect" | "getsockname" | "getpeername" | "setsockopt" | "getsockopt" | "poll"
                if bad_argument(call) =>
            {
                Ok(SyscallResult::errno("EFAULT"))
            }
            "bind" => {
                self.socket_of(args)?.bound = true;
                Ok(SyscallResult::Done(0))
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
            "epoll_create" | "epoll_create1" => Ok(self.new_descriptor(File::Epoll(Vec::new()))),
            "epoll_ctl" => self.epoll_ctl(args),
            "epoll_wait" => self.epoll_wait(args),
            "open" => Ok(self.new_descriptor(File::Plain)),
            "pipe" => self.pipe(args),
            "splice" | "sendfile" => self.splice(call),
            "getsockname" | "getpeername" => Ok(SyscallResult::Done(0)),
            other => unsupported(format!("the system call `{other}`")),
        }
    }
}
