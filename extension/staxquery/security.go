package staxquery

import (
	"context"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/stax-otel/stax/internal/recording"
)

type unixKey struct{}

// withTransport notes in ctx whether c is a unix socket.
func withTransport(ctx context.Context, c net.Conn) context.Context {
	if a := c.LocalAddr(); a != nil && a.Network() == "unix" {
		return context.WithValue(ctx, unixKey{}, true)
	}
	return ctx
}

// rights are what a caller may do.
type rights int

const (
	mayNothing rights = iota
	mayRead
	mayControl // and start and stop recordings
	mayAll     // and name paths: the caller is the collector's own user
)

var (
	errWrongUser = errors.New("this socket serves the collector's own user only")
	errNeedToken = errors.New("send the header \"Authorization: Bearer TOKEN\" with the token of the staxquery extension")
	errReadOnly  = errors.New("over TCP without a token this API is read-only: use the unix socket, or configure token in the staxquery extension")
	errPath      = errors.New("naming a path is possible on the unix socket only")
)

// rightsOf returns what the sender of r may do, and why not more.
func (x *queryExtension) rightsOf(r *http.Request) (rights, error) {
	if unix, _ := r.Context().Value(unixKey{}).(bool); unix {
		// Where the system names no peer, the socket's mode (0600) has decided.
		if p, ok := recording.PeerFromContext(r.Context()); ok && p.UID != x.uid && p.UID != 0 {
			return mayNothing, errWrongUser
		}
		return mayAll, nil
	}
	if x.cfg.Token == "" {
		return mayRead, errReadOnly
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || subtle.ConstantTimeCompare([]byte(token), []byte(x.cfg.Token)) != 1 {
		return mayNothing, errNeedToken
	}
	return mayControl, errPath
}

// guard lets a request pass only if it comes to a name of this server and from no foreign web page. A page that was loaded
// from attacker.example can make its own name resolve to 127.0.0.1 and then send requests here without any cross-origin
// check of the browser; the Host header still tells the name.
func (x *queryExtension) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if unix, _ := r.Context().Value(unixKey{}).(bool); unix { // no browser gets here
			next.ServeHTTP(w, r)
			return
		}
		if !x.allowedHost(hostname(r.Host)) {
			writeError(w, http.StatusForbidden, errors.New("the Host header names another server: use localhost, or add the name to allowed_hosts"))
			return
		}
		for _, origin := range r.Header.Values("Origin") {
			u, err := url.Parse(origin)
			if err != nil || (u.Scheme != "http" && u.Scheme != "https") || !strings.EqualFold(u.Host, r.Host) {
				writeError(w, http.StatusForbidden, errors.New("the Origin header names another site"))
				return
			}
		}
		if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
			writeError(w, http.StatusForbidden, errors.New("requests of other sites are not answered"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (x *queryExtension) allowedHost(host string) bool {
	return loopbackHost(host) || slices.ContainsFunc(x.cfg.AllowedHosts, func(a string) bool { return strings.EqualFold(a, host) })
}

// hostname returns the name or address in a Host header.
func hostname(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
}

// loopbackHost reports whether host is a literal loopback address or localhost.
func loopbackHost(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Zone() == "" && addr.Unmap().IsLoopback()
}
