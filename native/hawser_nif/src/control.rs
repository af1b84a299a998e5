//! placeholder until the control builder's file lands
use parking_lot::Mutex;
pub struct SocketHandle(Mutex<Option<std::net::TcpStream>>);
#[rustler::resource_impl]
impl rustler::Resource for SocketHandle {}
impl SocketHandle {
    pub fn take(&self) -> Option<std::net::TcpStream> {
        self.0.lock().take()
    }
}
