package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"

	"github.com/stax-otel/stax/sdk/semconv"
)

// Transport is how requests travel.
type Transport string

// The transports.
const (
	GRPC Transport = "grpc" // OTLP/gRPC, TCP on loopback
	HTTP Transport = "http" // OTLP/HTTP with protobuf, unix socket
)

// Target is a server to load.
type Target struct {
	Transport Transport
	Address   string // host:port, or the path of the unix socket
	Token     string // sent with each request; "" for none
}

type signal int

const (
	traces signal = iota
	logs
)

type sender interface {
	// send delivers one request. It returns when the server has accepted all of it.
	send(context.Context, signal, []byte) error
	close()
}

// Run sends at least spans records over the streams, one connection each, and returns what it sent. Each connection has one
// request in flight.
func Run(ctx context.Context, to Target, streams []*Stream, spans int) (Truth, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	senders := make([]sender, len(streams))
	for i := range streams {
		s, err := dial(to)
		if err != nil {
			return Truth{}, err
		}
		defer s.close()
		senders[i] = s
	}
	errs := make([]error, len(streams))
	var wg sync.WaitGroup
	for i, s := range streams {
		wg.Go(func() {
			if errs[i] = s.run(ctx, senders[i], spans/len(streams)); errs[i] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	var sum Truth
	for _, s := range streams {
		t := s.Truth()
		sum.add(&t)
	}
	return sum, errors.Join(errs...)
}

func (s *Stream) run(ctx context.Context, to sender, spans int) error {
	if b := s.Registrations(); b != nil {
		if err := to.send(ctx, logs, b); err != nil {
			return fmt.Errorf("load: registering: %w", err)
		}
	}
	for sent := 0; sent < spans; sent += s.batch {
		if err := to.send(ctx, traces, s.Next()); err != nil {
			return fmt.Errorf("load: request %d: %w", s.requests, err)
		}
	}
	if b := s.Final(); b != nil {
		if err := to.send(ctx, traces, b); err != nil {
			return fmt.Errorf("load: final heartbeat: %w", err)
		}
	}
	return nil
}

func dial(to Target) (sender, error) {
	if to.Transport == HTTP {
		t := &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "unix", to.Address)
			},
			MaxIdleConnsPerHost: 1, DisableCompression: true,
		}
		return &httpSender{client: &http.Client{Transport: t}, token: to.Token}, nil
	}
	cc, err := grpc.NewClient(to.Address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{})))
	if err != nil {
		return nil, err
	}
	return &grpcSender{cc: cc, token: to.Token}, nil
}

type grpcSender struct {
	cc    *grpc.ClientConn
	token string
}

var grpcMethods = [...]string{
	traces: "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
	logs:   "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
}

func (s *grpcSender) send(ctx context.Context, sig signal, b []byte) error {
	if s.token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, strings.ToLower(semconv.HeaderToken), s.token)
	}
	var reply []byte
	if err := s.cc.Invoke(ctx, grpcMethods[sig], b, &reply, grpc.WaitForReady(true)); err != nil {
		return err
	}
	return accepted(reply)
}

func (s *grpcSender) close() { _ = s.cc.Close() }

// rawCodec hands ready bytes to gRPC.
type rawCodec struct{}

var _ encoding.CodecV2 = rawCodec{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

type httpSender struct {
	client *http.Client
	token  string
}

var httpPaths = [...]string{traces: "/v1/traces", logs: "/v1/logs"}

func (s *httpSender) send(ctx context.Context, sig signal, b []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+httpPaths[sig], bytes.NewReader(b))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	if s.token != "" {
		req.Header.Set(semconv.HeaderToken, s.token)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	reply, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %q", resp.Status, reply)
	}
	return accepted(reply)
}

func (s *httpSender) close() { s.client.CloseIdleConnections() }

// accepted reports a partial success as an error: an empty message, plain or inside the response, means that all was taken.
func accepted(reply []byte) error {
	if len(reply) == 0 || bytes.Equal(reply, []byte{0x0a, 0}) {
		return nil
	}
	return fmt.Errorf("partial success: %q", reply)
}
