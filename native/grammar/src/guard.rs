//! For processes that only try grammars out: they end where one takes too long or too much.
//!
//! Nothing of a compilation can be stopped from outside but a whole process; there, ending is all
//! that it takes, whatever state the compilation is in.
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Condvar, Mutex, Once};
use std::time::{Duration, Instant};

/// What the process says when it ended because of a limit.
pub const EXIT_MEMORY: i32 = 77;
pub const EXIT_TIME: i32 = 78;

static BYTES: AtomicI64 = AtomicI64::new(i64::MAX);
static DEADLINE: Mutex<Option<Instant>> = Mutex::new(None);
static CHANGED: Condvar = Condvar::new();
static WATCH: Once = Once::new();

unsafe extern "C" {
    fn _exit(code: i32) -> !;
}

/// Notes that a thread holds `bytes`.
pub fn check(bytes: i64) {
    if bytes > BYTES.load(Ordering::Relaxed) {
        unsafe { _exit(EXIT_MEMORY) }
    }
}

/// From now on, ends the process where a thread holds more than `bytes`, and after `time`.
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
