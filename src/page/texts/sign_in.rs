//! The texts of the sign-in.

super::texts!(SignInTexts {
    title: "Sign in", "登录";
    key: "API key", "API Key";
    help: "An operator makes keys with “ringback key add”. You stay signed in for 12 hours, or until the key ends or is revoked.", "API Key 由运维人员用 “ringback key add” 创建。登录有效期 12 小时；API Key 到期或被吊销后立即失效。";
    submit: "Sign in", "登录";
    none: "Enter an API key.", "请输入 API Key。";
    unknown: "This is no API key of this server. It may have been revoked.", "API Key 不正确，或已被吊销。";
    expired: "This API key has expired. Ask an operator for a new one.", "该 API Key 已过期，请向运维人员申请新的 API Key。";
    no_key_exists: "This server has no API key yet. An operator sets one and starts it again.", "服务器尚未配置 API Key，请运维人员设置后重启。";
    too_many: "Too many attempts to sign in. Wait a moment, then try again.", "登录尝试过于频繁，请稍候再试。";
    signed_out: "You are signed out.", "已退出登录。";
});
