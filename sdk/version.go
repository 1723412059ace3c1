package sdk

// Version is the version of the SDK, sent as telemetry.sdk.version.
const Version = "0.1.0"
