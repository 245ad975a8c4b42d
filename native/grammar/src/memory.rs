//! Counts the bytes that each thread allocates, for exact sizes of grammars and their matchers.
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use crate::guard;

thread_local! {
    static HELD: Cell<i64> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(bytes: i64) {
    // A thread that is exiting no longer has its counter.
    let held = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        held.get()
    });
    if let Ok(held) = held {
        guard::check(held);
    }
}

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64);
        unsafe { System.realloc(block, layout, size) }
    }
}

/// Bytes that this thread allocated and did not free.
pub fn held() -> i64 {
    HELD.with(Cell::get)
}
