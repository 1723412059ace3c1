package staxtargetreceiver

import (
	"context"
	"time"

	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.opentelemetry.io/collector/receiver/receiverhelper"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// transport is how a request came, for the receiver's own metrics.
type transport struct {
	obs    *receiverhelper.ObsReport
	format string
}

// retryAfter is when a client shall send a request again that the next consumer did not take.
const retryAfter = time.Second

func (r *targetReceiver) exportTraces(ctx context.Context, from sender, via transport, req ptraceotlp.ExportRequest) (ptraceotlp.ExportResponse, error) {
	resp := ptraceotlp.NewExportResponse()
	q := r.newRequest(from)
	err := r.export(ctx, q, func() (n int, err error) {
		op := via.obs.StartTracesOp(ctx)
		defer func() { via.obs.EndTracesOp(op, via.format, n, err) }()
		return r.takeTraces(op, q, req.Traces())
	})
	if msg := q.message(); err == nil && msg != "" {
		resp.PartialSuccess().SetRejectedSpans(int64(q.items))
		resp.PartialSuccess().SetErrorMessage(msg)
	}
	return resp, err
}

func (r *targetReceiver) exportMetrics(ctx context.Context, from sender, via transport, req pmetricotlp.ExportRequest) (pmetricotlp.ExportResponse, error) {
	resp := pmetricotlp.NewExportResponse()
	q := r.newRequest(from)
	err := r.export(ctx, q, func() (n int, err error) {
		op := via.obs.StartMetricsOp(ctx)
		defer func() { via.obs.EndMetricsOp(op, via.format, n, err) }()
		return r.takeMetrics(op, q, req.Metrics())
	})
	if msg := q.message(); err == nil && msg != "" {
		resp.PartialSuccess().SetRejectedDataPoints(int64(q.items))
		resp.PartialSuccess().SetErrorMessage(msg)
	}
	return resp, err
}

func (r *targetReceiver) exportLogs(ctx context.Context, from sender, via transport, req plogotlp.ExportRequest) (plogotlp.ExportResponse, error) {
	resp := plogotlp.NewExportResponse()
	q := r.newRequest(from)
	err := r.export(ctx, q, func() (n int, err error) {
		op := via.obs.StartLogsOp(ctx)
		defer func() { via.obs.EndLogsOp(op, via.format, n, err) }()
		return r.takeLogs(op, q, req.Logs())
	})
	if msg := q.message(); err == nil && msg != "" {
		resp.PartialSuccess().SetRejectedLogRecords(int64(q.items))
		resp.PartialSuccess().SetErrorMessage(msg)
	}
	return resp, err
}

func (r *targetReceiver) exportProfiles(ctx context.Context, from sender, via transport, req pprofileotlp.ExportRequest) (pprofileotlp.ExportResponse, error) {
	resp := pprofileotlp.NewExportResponse()
	q := r.newRequest(from)
	err := r.export(ctx, q, func() (n int, err error) {
		op := via.obs.StartProfilesOp(ctx)
		defer func() { via.obs.EndProfilesOp(op, via.format, n, err) }()
		return r.takeProfiles(op, q, req.Profiles())
	})
	if msg := q.message(); err == nil && msg != "" {
		resp.PartialSuccess().SetRejectedProfiles(int64(q.items))
		resp.PartialSuccess().SetErrorMessage(msg)
	}
	return resp, err
}

// export runs take, which ends when the next consumer has returned, and says what the client has to know: a permanent
// error is the data's fault, anything else may be tried again.
func (r *targetReceiver) export(ctx context.Context, q *request, take func() (int, error)) error {
	if !r.inFlight.enter() {
		return retryable("the receiver is shutting down")
	}
	defer r.inFlight.leave()
	defer q.release()
	_, err := take()
	if err == nil {
		q.settle(ctx)
		return nil
	}
	q.fail()
	if consumererror.IsPermanent(err) {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return retryable(err.Error())
}

func retryable(msg string) error {
	st := status.New(codes.Unavailable, msg)
	if with, err := st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(retryAfter)}); err == nil {
		st = with
	}
	return st.Err()
}
