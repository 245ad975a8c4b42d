//! Limits for processes that only try grammars out: such a process exits when a compilation takes
//! too much time or memory.
//!
//! A compilation cannot be interrupted from outside except by ending its process. Exiting needs no
//! cleanup, whatever state the compilation is in.
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Condvar, Mutex, Once};
use std::time::{Duration, Instant};

/// Exit codes of a process that exceeded a limit.
pub const EXIT_MEMORY: i32 = 77;
pub const EXIT_TIME: i32 = 78;

static BYTES: AtomicI64 = AtomicI64::new(i64::MAX);
static DEADLINE: Mutex<Option<Instant>> = Mutex::new(None);
static CHANGED: Condvar = Condvar::new();
static WATCH: Once = Once::new();

unsafe extern "C" {
    fn _exit(code: i32) -> !;
}

/// Exits the process if `bytes`, held by one thread, exceed the limit.
pub fn check(bytes: i64) {
    if bytes > BYTES.load(Ordering::Relaxed) {
        unsafe { _exit(EXIT_MEMORY) }
    }
}

/// Sets the limits: the process exits if a thread holds more than `bytes`, or after `time`.
pub fn arm(bytes: i64, time: Duration) {
    WATCH.call_once(|| {
        let _ = std::thread::Builder::new().name("perigee-watch".to_string()).spawn(watch);
    });
    BYTES.store(bytes, Ordering::Relaxed);
    set(Some(Instant::now() + time));
}

pub fn disarm() {
    BYTES.store(i64::MAX, Ordering::Relaxed);
    set(None);
}

fn set(deadline: Option<Instant>) {
    *DEADLINE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = deadline;
    CHANGED.notify_all();
}

fn watch() {
    let mut deadline = DEADLINE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    loop {
        let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
        deadline = match left {
            Some(Duration::ZERO) => unsafe { _exit(EXIT_TIME) },
            Some(left) => match CHANGED.wait_timeout(deadline, left) {
                Ok((guard, _)) => guard,
                Err(poisoned) => poisoned.into_inner().0,
            },
            None => CHANGED.wait(deadline).unwrap_or_else(|poisoned| poisoned.into_inner()),
        };
    }
}
