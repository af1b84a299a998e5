//! The Rust side's log: tracing events of hawser's own crates become log events for the owner. One subscriber for the
//! process, installed once. A control plane's own threads write into its queue; all other threads into that of the one
//! started last; into none when it has stopped. A level that is off costs tracing's cached test and nothing else.

use crate::events::{Event, Events, Level};
use once_cell::sync::OnceCell;
use parking_lot::{Mutex, const_mutex};
use std::cell::RefCell;
use std::fmt::{Debug, Write};
use std::sync::{Arc, Weak};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Interest, set_global_default};
use tracing::{Metadata, Subscriber};

/// The longest line, in bytes; what follows is cut.
const MAX_TEXT_BYTES: usize = 500;
const MAX_LEVEL: tracing::Level = tracing::Level::INFO;

static NEWEST: Mutex<Weak<Events>> = const_mutex(Weak::new());
static INSTALLED: OnceCell<()> = OnceCell::new();

thread_local! {
    static OWN: RefCell<Weak<Events>> = const { RefCell::new(Weak::new()) };
}

/// From now on, and for as long as it lives, the queue of threads that belong to no control plane.
pub(crate) fn direct_to(events: &Arc<Events>) {
    *NEWEST.lock() = Arc::downgrade(events);
    // Fails where the process has another subscriber: lines go there then.
    INSTALLED.get_or_init(|| set_global_default(Journal).unwrap_or_default());
}

/// The calling thread belongs to the control plane of this queue.
pub(crate) fn adopt_thread(events: &Weak<Events>) {
    OWN.set(events.clone());
}

fn queue() -> Option<Arc<Events>> {
    // A thread that is ending has lost its own.
    let own = OWN
        .try_with(|own| own.borrow().upgrade())
        .unwrap_or_default();
    own.or_else(|| NEWEST.lock().upgrade())
}

struct Journal;

impl Subscriber for Journal {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.enabled(metadata) {
            Interest::always()
        } else {
            Interest::never()
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
            && *metadata.level() <= MAX_LEVEL
            && metadata.target().starts_with("hawser")
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::from_level(MAX_LEVEL))
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let Some(events) = queue() else { return };
        let mut line = Line(String::new());
        event.record(&mut line);
        events.push(Event::Log {
            level: level(*event.metadata().level()),
            text: line.0,
        });
    }

    // Spans are not enabled.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn level(level: tracing::Level) -> Level {
    match level {
        tracing::Level::ERROR => Level::Error,
        tracing::Level::WARN => Level::Warning,
        tracing::Level::INFO => Level::Info,
        _ => Level::Debug,
    }
}

/// The message, then the other fields as ` name=value`.
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a String cannot fail.
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
        if self.0.len() > MAX_TEXT_BYTES {
            self.0.truncate(self.0.floor_char_boundary(MAX_TEXT_BYTES));
        }
    }
}
