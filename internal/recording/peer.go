package recording

import (
	"context"
	"net"
)

// Peer is the process at the other end of a unix socket, as the kernel names it.
type Peer struct {
	PID int // in the collector's PID namespace; 0 when it has none there
	UID int
}

type peerKey struct{}

// ContextWithPeer returns a context that carries p.
func ContextWithPeer(ctx context.Context, p Peer) context.Context {
	return context.WithValue(ctx, peerKey{}, p)
}

// PeerFromContext returns the peer that ctx carries, if any.
func PeerFromContext(ctx context.Context) (Peer, bool) {
	p, ok := ctx.Value(peerKey{}).(Peer)
	return p, ok
}

// PeerConnContext is for http.Server.ConnContext: on a unix socket it adds the peer's credentials to the context. On other
// connections, and where the system does not tell, ctx comes back unchanged.
func PeerConnContext(ctx context.Context, c net.Conn) context.Context {
	if p, ok := PeerOf(c); ok {
		return ContextWithPeer(ctx, p)
	}
	return ctx
}
