//! A socket that the VM polls for room to write: one resource object per socket. Reading is the VM's socket driver's.
//!
//! The resource holds one reference to the stream; whoever reads or writes holds another for the length of a call.
//! The descriptor closes when the VM has let go of it (the stop callback) and nobody is inside a call. The resource
//! watches the processes that own the socket; when one dies, `on_owner_down` is run and the selection stopped.

use super::{Immediate, LocalPid, Vm};
use parking_lot::Mutex;
use rustler::sys::{
    self, ErlNifEnv, ErlNifEvent, ErlNifMonitor, ErlNifPid, ErlNifResourceFlags,
    ErlNifResourceType, ErlNifResourceTypeInit,
};
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

const CUSTOM_MESSAGE: c_int = 1 << 4;

static TYPE: AtomicPtr<ErlNifResourceType> = AtomicPtr::new(std::ptr::null_mut());

type OwnerDown = Box<dyn Fn(Vm<'_>) + Send + Sync>;

struct Inside {
    state: Mutex<State>,
    on_owner_down: OwnerDown,
}

struct State {
    stream: Option<Arc<TcpStream>>,
    /// The VM was asked to let go: selecting again would take the descriptor away from its stop callback.
    stopping: bool,
}

/// A socket registered with the VM's poller.
pub struct Watched(*mut c_void);

// SAFETY: the resource is reference counted by the VM and its content is Send + Sync.
unsafe impl Send for Watched {}
// SAFETY: as above.
unsafe impl Sync for Watched {}

/// Registers the resource type; called once, from the load callback.
pub fn register(env: rustler::Env<'_>) -> bool {
    let init = ErlNifResourceTypeInit {
        dtor: dtor as *const _,
        stop: stop as *const _,
        down: down as *const _,
    };
    let mut tried = ErlNifResourceFlags::ERL_NIF_RT_CREATE;
    // SAFETY: called in the load callback, where resource types may be opened; the callbacks have the API's types.
    let kind = unsafe {
        sys::enif_open_resource_type_x(
            env.as_c_arg(),
            c"hawser_watched".as_ptr(),
            &init,
            ErlNifResourceFlags::ERL_NIF_RT_CREATE,
            &mut tried,
        )
    };
    TYPE.store(kind.cast_mut(), Ordering::Release);
    !kind.is_null()
}

/// # Safety
/// `object` is a resource of our type that has not been destroyed.
unsafe fn inside<'x>(object: *mut c_void) -> &'x Inside {
    // SAFETY: the resource's memory holds an Inside from `Watched::new` until `dtor`.
    unsafe { &*object.cast::<Inside>() }
}

unsafe extern "C" fn dtor(_env: *mut ErlNifEnv, object: *mut c_void) {
    // SAFETY: the VM destroys a resource once; the content was written by `Watched::new`.
    unsafe { std::ptr::drop_in_place(object.cast::<Inside>()) }
}

unsafe extern "C" fn stop(
    _env: *mut ErlNifEnv,
    object: *mut c_void,
    _event: ErlNifEvent,
    _is_direct: c_int,
) {
    // SAFETY: the VM calls back with a live resource of our type.
    drop(unsafe { inside(object) }.state.lock().stream.take());
}

unsafe extern "C" fn down(
    env: *mut ErlNifEnv,
    object: *mut c_void,
    _pid: *const ErlNifPid,
    _monitor: *const ErlNifMonitor,
) {
    let vm = Vm {
        env,
        call: PhantomData,
    };
    // SAFETY: the VM calls back with a live resource of our type. A panic must not cross into C.
    let inside = unsafe { inside(object) };
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (inside.on_owner_down)(vm)));
    // Whatever became of the session: nobody is left to read or write this socket.
    // SAFETY: as above; the environment is the callback's.
    unsafe { let_go(env, object) }
}

/// Has the VM end the selection, once.
///
/// # Safety
/// `object` is a live resource of our type, `env` the environment of the running call or callback.
unsafe fn let_go(env: *mut ErlNifEnv, object: *mut c_void) {
    // SAFETY: the caller's promise.
    let inside = unsafe { inside(object) };
    let stream = {
        let mut state = inside.state.lock();
        if std::mem::replace(&mut state.stopping, true) {
            return;
        }
        state.stream.clone()
    };
    let Some(stream) = stream else { return };
    let no_reference = Immediate::of_atom(rustler::types::atom::undefined());
    // SAFETY: the descriptor is open, since `stream` holds it; no lock is held, since `stop` may run at once.
    unsafe {
        sys::enif_select(
            env,
            stream.as_raw_fd() as ErlNifEvent,
            sys::ERL_NIF_SELECT_STOP,
            object,
            std::ptr::null(),
            no_reference.0,
        );
    }
}

impl Watched {
    /// Wraps a connected, non-blocking stream. `on_owner_down` runs when a process given to [`Watched::owner`] dies.
    pub fn new(
        stream: Arc<TcpStream>,
        on_owner_down: impl Fn(Vm<'_>) + Send + Sync + 'static,
    ) -> Option<Self> {
        let kind = TYPE.load(Ordering::Acquire);
        if kind.is_null() {
            return None;
        }
        // SAFETY: the type is registered; the fresh memory is filled before anybody sees it.
        unsafe {
            let object = sys::enif_alloc_resource(kind, std::mem::size_of::<Inside>());
            if object.is_null() {
                return None;
            }
            object.cast::<Inside>().write(Inside {
                state: Mutex::new(State {
                    stream: Some(stream),
                    stopping: false,
                }),
                on_owner_down: Box::new(on_owner_down),
            });
            Some(Watched(object))
        }
    }

    /// Watches a process that the socket cannot live without. False when it is dead already.
    pub fn owner(&self, vm: Vm<'_>, pid: LocalPid) -> bool {
        let mut monitor = std::mem::MaybeUninit::<ErlNifMonitor>::uninit();
        // SAFETY: the resource is live; the monitor's place is only written to.
        unsafe { sys::enif_monitor_process(vm.env, self.0, &pid.0, monitor.as_mut_ptr()) == 0 }
    }

    /// Asks for `message` to the calling process when there is room to write. Once per call.
    pub fn arm_write(&self, vm: Vm<'_>, message: Immediate) -> bool {
        // SAFETY: the resource is live.
        let state = unsafe { inside(self.0) }.state.lock();
        let Some(stream) = state.stream.as_ref().filter(|_| !state.stopping) else {
            return false;
        };
        // SAFETY: the descriptor is open, since `state` holds the stream; the message is an immediate. Selecting does
        // not call back, so holding the lock is harmless.
        unsafe {
            sys::enif_select_x(
                vm.env,
                stream.as_raw_fd() as ErlNifEvent,
                sys::ERL_NIF_SELECT_WRITE | CUSTOM_MESSAGE,
                self.0,
                std::ptr::null(),
                message.0,
                std::ptr::null_mut(),
            ) >= 0
        }
    }

    /// Ends the selection; the VM then lets go of the descriptor. Idempotent.
    pub fn stop(&self, vm: Vm<'_>) {
        // SAFETY: the resource is live; env is the running call's.
        unsafe { let_go(vm.env, self.0) }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // SAFETY: gives back the reference of enif_alloc_resource.
        unsafe { sys::enif_release_resource(self.0) }
    }
}
